-- Decide whether an owed call whose deadline has passed is to be woken again, and set its next one.
-- KEYS  1 call  2 owed
-- ARGV  1 CallSid  2 owed_ms  3 the longest time between two wakes, ms  4 now_ms or ''
-- Says  wake, attempts, owed since, urgency as JSON, 1 when hurried | early (another sweep has it)
--       | quiet (nothing is owed, or the call is over) | unknown
local heard, answered, worker, since, attempts, urgency, hurry, outcome = unpack(redis.call(
  'HMGET', KEYS[1], 'heard', 'answered', 'assigned_worker', 'owed_since', 'attempts', 'urgency',
  'hurry', 'outcome'))
if not heard then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'unknown'}
end
-- Ended: the sweep that asks has looked before, and this must not bring its index entry back.
if outcome ~= 'null' or worker ~= 'null' or tonumber(heard) <= tonumber(answered) then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'quiet'}
end
local now = clock(ARGV[4])
local deadline = redis.call('ZSCORE', KEYS[2], ARGV[1])
if deadline and tonumber(deadline) > tonumber(now) then
  return {'early'}
end
-- The longer it has waited, the likelier its message is not lost but behind a backlog, which more
-- messages would make longer. But once it is asked for as soon again: an outage may have kept all
-- sweeps away for long, and the answer to this one may be lost with it.
local pause = tonumber(ARGV[2])
if tonumber(deadline) ~= since + pause then
  pause = math.max(pause, math.min(now - since, tonumber(ARGV[3])))
end
redis.call('ZADD', KEYS[2], now + pause, ARGV[1])
return {'wake', attempts, since, urgency, is_hurried(hurry, answered)}
