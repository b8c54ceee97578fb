-- Open a call: the record exists from here on.
-- KEYS  1 call  2 thread  3 journal  4 active  5 rings
-- ARGV  1 CallSid  2 thread entry of the opening words without its time, or ''
--       3 a fresh alert as JSON: a human is to be rung from the start; or ''
--       4 …  pairs of field, JSON value  last now_ms or ''
-- Says  opened | known (a second webhook for the same call; nothing is changed)
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {'known'}
end
local now = clock(ARGV[#ARGV])
local fields = {'created_at', now, 'updated_at', now}
for i = 4, #ARGV - 1 do
  fields[#fields + 1] = ARGV[i]
end
redis.call('HSET', KEYS[1], unpack(fields))
if ARGV[2] ~= '' then
  redis.call('RPUSH', KEYS[2], stamped(ARGV[2], now))
end
redis.call('ZADD', KEYS[4], now, ARGV[1])
journal(KEYS[3], now, 'opened')
alarm(now, ARGV[1], KEYS[1], KEYS[3], KEYS[5], ARGV[3])
return {'opened'}
