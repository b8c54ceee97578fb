-- A person says how urgent a call is. It stands until something is heard that they did not know of
-- and that is graver (save_progress.lua). The reason is kept with the notes, too: there each of them
-- stays.
-- KEYS  call journal
-- ARGV  urgency     JSON
--       by
--       reason      JSON, or null
--       seen#?
--       request
--       note        the reason as a note, JSON
--       most_notes#  how many notes a call may have
-- Says  ok, `unbegun` where a reply is owed that no worker has begun | again
--       | stale, `by`, `at` (somebody was first) | unreasoned, `heard` (it is less urgent than that,
--       and there is no reason) | full | unknown | ended
local call = open_call('urgency', 'urgency_heard', 'heard', 'answered', 'assigned_worker', 'grounds',
  'notes')
if call.refusal ~= 'unknown' and done_before() then
  return say('again')
end
if call.refusal then
  return say(call.refusal)
end
local first = overtaken('urgency')
if first then
  return first
end
local heard = call.urgency_heard or call.urgency -- Nobody has set it before: it is what was heard.
-- As letters "P1" comes before "P2", and is the more urgent.
if heard ~= 'null' and a.urgency > heard and a.reason == 'null' then
  return say('unreasoned', {heard = cjson.decode(heard)})
end
if a.reason ~= 'null' and call.notes and #cjson.decode(call.notes) >= a.most_notes then
  return say('full')
end
redis.call('HSET', key.call, 'urgency', a.urgency, 'urgency_heard', heard, 'urgency_set',
  '{"to":' .. a.urgency .. ',"over":' .. heard .. ',"by":' .. cjson.encode(a.by) .. ',"at":' .. now
  .. ',"reason":' .. a.reason .. ',"known":' .. (call.grounds or '{}') .. '}')
if a.reason ~= 'null' then
  redis.call('HSET', key.call, 'notes', appended(call.notes, stamped(a.note)))
end
count_act('urgency')
journal('urgency', 'reason', cjson.decode(a.urgency), 'by', a.by, 'request', a.request)
return say('ok', {unbegun = tonumber(call.heard) > tonumber(call.answered)
  and call.assigned_worker == 'null'})
