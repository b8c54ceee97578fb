-- Move the ladder of humans on, unless somebody else has moved it.
-- KEYS  call journal rings
-- ARGV  before        the alert as it was read, JSON
--       alert         the alert as it shall be, JSON
--       due_ms#?      in how many ms the ladder goes on; nil when it does not
--       event         for the journal
--       rung#         where on the ladder, from 0
--       reason
--       needs_human?  JSON; nil to leave it as it is
-- Says  ok | stale (it is not as it was read) | unknown | ended
-- Run twice it answers the same: each attempt to ring has a name of its own in the alert.
local call = open_call('alert')
if call.refusal then
  redis.call('ZREM', key.rings, a.call_sid)
  return say(call.refusal)
end
if call.alert == a.alert then
  return say('ok')
end
if (call.alert or 'null') ~= a.before then
  return say('stale')
end
redis.call('HSET', key.call, 'alert', a.alert, 'updated_at', now)
if a.needs_human then
  redis.call('HSET', key.call, 'needs_human', a.needs_human)
end
if a.due_ms then
  redis.call('HSET', key.call, 'alert_due', now + a.due_ms)
  redis.call('ZADD', key.rings, now + a.due_ms, a.call_sid)
else
  redis.call('HSET', key.call, 'alert_due', 'null')
  redis.call('ZREM', key.rings, a.call_sid)
end
journal(a.event, 'rung', a.rung, 'reason', a.reason)
return say('ok')
