-- Open a call: the record exists from here on.
-- KEYS  1 call  2 journal  3 active
-- ARGV  1 CallSid  2 …  pairs of field, JSON value  last now_ms or ''
-- Says  opened | known (a second webhook for the same call; nothing is changed)
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {'known'}
end
local now = clock(ARGV[#ARGV])
local fields = {'created_at', now, 'updated_at', now}
for i = 2, #ARGV - 1 do
  fields[#fields + 1] = ARGV[i]
end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('ZADD', KEYS[3], now, ARGV[1])
journal(KEYS[2], now, 'opened')
return {'opened'}
