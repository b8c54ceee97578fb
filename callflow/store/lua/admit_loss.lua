-- A failover took what was acknowledged: count it, let go of it, and go on behind it.
-- KEYS  call journal owed leases
-- ARGV  turn#     the last one that whoever asks knows to have been heard
--       told#     the last one whose reply they have passed on to the caller
-- Says  ok | idle (the record has all of it) | unknown | ended
-- Nobody can answer what is lost, and whoever works on an older turn has lost it too.
local call = open_call('heard', 'answered')
if call.refusal then
  return say(call.refusal)
end
local heard, answered = tonumber(call.heard), tonumber(call.answered)
local turns = math.max(a.turn - heard, 0)
local behind = turns > 0 and a.turn or a.told
if behind <= answered then
  return say('idle')
end
redis.call('HSET', key.call, 'call_state', call.to, 'heard', math.max(heard, behind),
  'answered', behind, 'assigned_worker', 'null', 'attempts', 0, 'draft', 'null', 'cut', 'null',
  'owed_since', now, 'updated_at', now)
redis.call('HINCRBY', key.call, 'fence', 1)
redis.call('ZREM', key.leases, a.call_sid)
if heard > behind then
  -- More was said than was lost: it is due now, whoever was to be woken for it.
  redis.call('ZADD', key.owed, now, a.call_sid)
else
  redis.call('ZREM', key.owed, a.call_sid)
end
if turns > 0 then
  redis.call('HINCRBY', key.call, 'lost', turns)
  journal('lost', 'turn', a.turn, 'count', turns)
else
  journal('lost', 'write', 'committed', 'turn', a.told, 'count', a.told - answered)
end
return say('ok')
