-- A person says how urgent a call is. It stands until something is heard that they did not know of
-- and that is graver (note.lua). The reason is kept with the notes, too: there each of them stays.
-- KEYS  1 call  2 journal
-- ARGV  1 moves  2 urgency as JSON  3 who  4 reason as JSON, or null  5 seen  6 request
--       7 the reason as a note without its time, as JSON  8 how many notes a call may have
--       9 now_ms or ''
-- Says  done, 1 where a reply is owed that no worker has begun, else 0 | again
--       | told, who, when (somebody was first) | unreasoned, what was heard (it is less urgent than
--       that, and there is no reason) | full | unknown | a refusal of the table
local state, urgency, heard, owed, answered, worker, grounds, notes = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'urgency', 'urgency_heard', 'heard', 'answered',
  'assigned_worker', 'grounds', 'notes'))
if not state then
  return {'unknown'}
end
if done_before(KEYS[1], KEYS[2], ARGV[6]) then
  return {'again'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
local first = overtaken(KEYS[1], 'urgency', ARGV[5])
if first then
  return first
end
heard = heard or urgency -- Nobody has set it before: it is what was heard.
-- As letters "P1" comes before "P2", and is the more urgent.
if heard ~= 'null' and ARGV[2] > heard and ARGV[4] == 'null' then
  return {'unreasoned', cjson.decode(heard)}
end
if ARGV[4] ~= 'null' and notes and #cjson.decode(notes) >= tonumber(ARGV[8]) then
  return {'full'}
end
local now = clock(ARGV[9])
redis.call('HSET', KEYS[1], 'urgency', ARGV[2], 'urgency_heard', heard, 'urgency_set',
  '{"to":' .. ARGV[2] .. ',"over":' .. heard .. ',"by":' .. cjson.encode(ARGV[3]) .. ',"at":' .. now
  .. ',"reason":' .. ARGV[4] .. ',"known":' .. (grounds or '{}') .. '}')
if ARGV[4] ~= 'null' then
  redis.call('HSET', KEYS[1], 'notes', appended(notes, stamped(ARGV[7], now)))
end
act(KEYS[1], 'urgency', ARGV[3], now)
journal(KEYS[2], now, 'urgency', 'reason', cjson.decode(ARGV[2]), 'by', ARGV[3],
  'request', ARGV[6])
local waits = tonumber(owed) > tonumber(answered) and worker == 'null'
return {'done', waits and '1' or '0'}
