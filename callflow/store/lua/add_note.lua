-- A person writes a note about a call. It is kept with the record, and never spoken.
-- KEYS  call journal
-- ARGV  note        JSON
--       by
--       request
--       most_notes#  how many a call may have
-- Says  ok | again | full | unknown | ended
local call = open_call('notes')
if call.refusal ~= 'unknown' and done_before() then
  return say('again')
end
if call.refusal then
  return say(call.refusal)
end
if call.notes and #cjson.decode(call.notes) >= a.most_notes then
  return say('full')
end
redis.call('HSET', key.call, 'notes', appended(call.notes, stamped(a.note)), 'updated_at', now)
journal('noted', 'by', a.by, 'request', a.request)
return say('ok')
