-- Decide whether an owed call whose deadline has passed is to be woken again, and set its next one.
-- KEYS  call owed
-- ARGV  owed_ms#
--       longest_ms#  the longest time between two wakes
-- Says  ok, `attempts`, `owed_since`, `urgency` as JSON, `hurried` | held (another sweep has it)
--       | idle (nothing is owed, or the call is over) | unknown
local heard, answered, worker, since, attempts, urgency, hurry, outcome = unpack(redis.call(
  'HMGET', key.call, 'heard', 'answered', 'assigned_worker', 'owed_since', 'attempts', 'urgency',
  'hurry', 'outcome'))
if not heard then
  redis.call('ZREM', key.owed, a.call_sid)
  return say('unknown')
end
-- Ended: the sweep that asks has looked before, and this must not bring its index entry back.
if outcome ~= 'null' or worker ~= 'null' or tonumber(heard) <= tonumber(answered) then
  redis.call('ZREM', key.owed, a.call_sid)
  return say('idle')
end
local deadline = tonumber(redis.call('ZSCORE', key.owed, a.call_sid))
if deadline and deadline > tonumber(now) then
  return say('held')
end
-- The longer it has waited, the likelier its message is not lost but behind a backlog, which more
-- messages would make longer. But once it is asked for as soon again: an outage may have kept all
-- sweeps away for long, and the answer to this one may be lost with it.
local pause = a.owed_ms
if deadline ~= since + pause then
  pause = math.max(pause, math.min(now - since, a.longest_ms))
end
redis.call('ZADD', key.owed, now + pause, a.call_sid)
return say('ok', {attempts = attempts, owed_since = since, urgency = urgency,
  hurried = is_hurried(hurry, answered)})
