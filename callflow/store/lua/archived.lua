-- The lasting store has a call, up to a line of its journal and one of its audit: its keys get their
-- lifetime, or, when that is over, end.
-- KEYS  1 call  2 thread  3 journal  4 audit  5 unarchived  6 archived
-- ARGV  1 CallSid  2 ids of the last lines that are archived, of journal and audit, with a space
--       3 completed_ttl_ms  4 after how many ms it is looked at again  5 now_ms or ''
-- Says  kept | grown (there are later lines: archive them, and ask again)
--       | over (its keys are gone) | open (it is not complete: a failover took its end back)
-- Run twice it answers the same.
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if not outcome or outcome == 'null' then
  redis.call('ZREM', KEYS[5], ARGV[1])
  redis.call('ZREM', KEYS[6], ARGV[1])
  return {outcome and 'open' or 'over'}
end
local last = {}
for i = 3, 4 do
  local line = redis.call('XREVRANGE', KEYS[i], '+', '-', 'COUNT', 1)[1]
  last[#last + 1] = line and line[1] or ''
end
if table.concat(last, ' ') ~= ARGV[2] then
  return {'grown'}
end
local now, again = clock(ARGV[5]), tonumber(ARGV[4])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  -- Longer than it is looked at, so that no line is written between the last look and the end.
  left = ARGV[3] + again
  for i = 1, 4 do
    redis.call('PEXPIRE', KEYS[i], string.format('%.0f', left))
  end
  redis.call('ZREM', KEYS[5], ARGV[1])
elseif left <= again then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  redis.call('ZREM', KEYS[6], ARGV[1])
  return {'over'}
end
redis.call('ZADD', KEYS[6], now + math.min(again, left - again), ARGV[1])
-- The index ends with the calls that it names.
if redis.call('PTTL', KEYS[6]) < left then
  redis.call('PEXPIRE', KEYS[6], string.format('%.0f', left))
end
return {'kept'}
