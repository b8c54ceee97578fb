-- A person wants the call: their telephone is rung, whoever is being rung for it now.
-- KEYS  call journal rings
-- ARGV  alert     the alert for them, JSON
--       by
--       seen#?
--       request
--       by_human  handling of a call that a human has, JSON
-- Says  ok, `before`: the alert that stood, JSON | again | stale, `by`, `at` (somebody was first)
--       | with_human, `who` | unknown | ended
-- The agent goes on talking: nobody is moved before there is somebody to be moved to.
local call = open_call('handling', 'alert')
if call.refusal ~= 'unknown' and done_before() then
  return say('again')
end
if call.refusal then
  return say(call.refusal)
end
local human, who = with_human(call)
if human then
  return say('with_human', {who = who})
end
local first = overtaken('call')
if first then
  return first
end
redis.call('HSET', key.call, 'alert', a.alert, 'alert_due', now)
redis.call('ZADD', key.rings, now, a.call_sid)
count_act('call')
journal('taken_over', 'by', a.by, 'request', a.request)
return say('ok', {before = call.alert or 'null'})
