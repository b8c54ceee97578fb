-- Store the reply to a turn and let the call go.
-- KEYS  1 call  2 thread  3 journal  4 leases  5 owed  6 rings
-- ARGV  1 moves  2 CallSid  3 fence and claim  4 turn  5 thread entry without its time  6 owed_ms
--       7 channel  8 a fresh alert as JSON: a human is wanted; or ''
--       9 …  pairs of field, JSON value  last now_ms or ''
-- Says  ok, alerted|calm | moved (stored, and the caller has said more: wake again), alerted|calm,
--       1 when that was danger | fenced | unknown | a refusal of the table
local state, fence, claim, heard, answered, cut, hurry = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'fence', 'claim', 'heard', 'answered', 'cut', 'hurry'))
if not state then
  return {'unknown'}
end
heard, answered = tonumber(heard), tonumber(answered)
local turn = tonumber(ARGV[4])
local ours, number = held(ARGV[3], fence, claim)
-- Our own lease and already answered: our first run did it and its answer was lost.
if ours and answered >= turn then
  vouch(KEYS[1])
  return {heard > answered and 'moved' or 'ok', 'calm', is_hurried(hurry, answered)}
end
local row = move(ARGV[1], state)
local now = clock(ARGV[#ARGV])
if row.refuse or not ours or turn ~= answered + 1 then
  local word = row.refuse or 'fenced'
  journal(KEYS[3], now, 'refused', 'write', 'committed', 'turn', turn, 'fence', number,
    'reason', word)
  return {word}
end
local fields = {}
for i = 9, #ARGV - 1 do
  fields[#fields + 1] = ARGV[i]
end
local reply = stamped(ARGV[5], now)
local cut_turn, cut_text = string.match(cut or '', '^{"turn":(%d+),"text":(.*)}$')
if cut_turn == ARGV[4] then
  reply = string.sub(reply, 1, -2) .. ',"heard":' .. cut_text .. '}'
end
redis.call('RPUSH', KEYS[2], reply)
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'answered', turn,
  'assigned_worker', 'null', 'attempts', 0, 'draft', 'null', 'cut', 'null', 'updated_at', now,
  unpack(fields))
redis.call('ZREM', KEYS[4], ARGV[2])
journal(KEYS[3], now, 'committed', 'turn', turn, 'fence', fence)
redis.call('PUBLISH', ARGV[7], ARGV[2] .. '\n' .. reply)
local alerted = 'calm'
if alarm(now, ARGV[2], KEYS[1], KEYS[3], KEYS[6], ARGV[8]) then
  alerted = 'alerted'
end
if heard > turn then
  redis.call('HSET', KEYS[1], 'owed_since', now)
  redis.call('ZADD', KEYS[5], now + ARGV[6], ARGV[2])
  return {'moved', alerted, is_hurried(hurry, turn)}
end
return {'ok', alerted}
