-- The agent lets go of a call for good: from here on a human has it, or is being rung for it.
-- KEYS  call journal leases owed rings
-- ARGV  lease?        of the holder that asks
--       event         for the journal
--       reason
--       by_human      handling of a call that a human has, JSON
--       needs_human?  JSON; nil to leave it as it is
--       alert         a fresh alert, JSON; or the accepted one
--       accepted?     a human is on the line
--       channel
-- Says  ok | again (a human had it already; an acceptance is kept all the same) | fenced | unknown
--       | ended
local call = open_call('heard', 'handling')
if call.refusal then
  return say(call.refusal)
end
local again = call.handling == a.by_human
if again and not a.accepted then
  return say('again')
end
-- Whoever words a reply has lost the call, and by the fence every later write: what is owed is
-- answered by the human.
local fence = call.fence + (again and 0 or 1)
redis.call('HSET', key.call, 'call_state', call.to, 'fence', fence, 'assigned_worker', 'null',
  'answered', call.heard, 'attempts', 0, 'draft', 'null', 'cut', 'null', 'handling', a.by_human,
  'updated_at', now)
if a.needs_human then
  redis.call('HSET', key.call, 'needs_human', a.needs_human)
end
redis.call('ZREM', key.leases, a.call_sid)
redis.call('ZREM', key.owed, a.call_sid)
local who = a.accepted and cjson.decode(a.alert).who
local by = who and {'by', who} or {}
journal(a.event, 'fence', fence, 'reason', a.reason, unpack(by))
if a.accepted then
  redis.call('HSET', key.call, 'alert', a.alert, 'alert_due', 'null')
  redis.call('ZREM', key.rings, a.call_sid)
else
  alarm(a.alert)
end
redis.call('PUBLISH', a.channel, a.call_sid)
return say(again and 'again' or 'ok')
