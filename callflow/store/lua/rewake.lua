-- Decide whether an owed call whose deadline has passed is to be woken again, and set its next one.
-- KEYS  1 call  2 owed
-- ARGV  1 CallSid  2 owed_ms  3 the longest time between two wakes, ms  4 now_ms or ''
-- Says  wake, attempts | early (another sweep has it) | quiet (nothing is owed) | unknown
local heard, answered, worker, since, attempts = unpack(redis.call(
  'HMGET', KEYS[1], 'heard', 'answered', 'assigned_worker', 'owed_since', 'attempts'))
if not heard then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'unknown'}
end
if worker ~= 'null' or tonumber(heard) <= tonumber(answered) then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'quiet'}
end
local now = clock(ARGV[4])
local deadline = redis.call('ZSCORE', KEYS[2], ARGV[1])
if deadline and tonumber(deadline) > tonumber(now) then
  return {'early'}
end
-- The longer it has waited, the likelier its message is not lost but behind a backlog, which more
-- messages would make longer.
local pause = math.max(tonumber(ARGV[2]), math.min(now - since, tonumber(ARGV[3])))
redis.call('ZADD', KEYS[2], now + pause, ARGV[1])
return {'wake', attempts}
