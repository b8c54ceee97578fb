-- A person says how urgent a call is. It stands until something graver is heard (note.lua).
-- KEYS  1 call  2 journal
-- ARGV  1 moves  2 urgency as JSON  3 who  4 reason as JSON, or null  5 seen  6 request
--       7 now_ms or ''
-- Says  done, 1 where a reply is owed that no worker has begun, else 0 | again
--       | told, who, when (somebody was first) | unreasoned, what was heard (it is less urgent than
--       that, and there is no reason) | unknown | a refusal of the table
local state, urgency, heard, owed, answered, worker = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'urgency', 'urgency_heard', 'heard', 'answered',
  'assigned_worker'))
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
local now = clock(ARGV[7])
redis.call('HSET', KEYS[1], 'urgency', ARGV[2], 'urgency_heard', heard, 'urgency_set',
  '{"to":' .. ARGV[2] .. ',"over":' .. heard .. ',"by":' .. cjson.encode(ARGV[3]) .. ',"at":' .. now
  .. ',"reason":' .. ARGV[4] .. '}')
act(KEYS[1], 'urgency', ARGV[3], now)
journal(KEYS[2], now, 'urgency', 'reason', cjson.decode(ARGV[2]), 'by', ARGV[3],
  'request', ARGV[6])
local waits = tonumber(owed) > tonumber(answered) and worker == 'null'
return {'done', waits and '1' or '0'}
