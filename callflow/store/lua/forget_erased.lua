-- The content of a complete call was erased from the lasting store: it goes from here too.
-- KEYS  call thread journal audit unarchived archived ended
-- Says  ok (there was something) | idle (there was nothing)
--       | open (it is not complete: a failover took its end back)
-- Run twice it says `idle`.
local outcome = redis.call('HGET', key.call, 'outcome')
if outcome == 'null' or (not outcome and redis.call('EXISTS', key.call) == 1) then
  return say('open')
end
local gone = redis.call('DEL', key.call, key.thread, key.journal, key.audit)
for _, index in ipairs({key.unarchived, key.archived, key.ended}) do
  redis.call('ZREM', index, a.call_sid)
end
return say(gone > 0 and 'ok' or 'idle')
