-- Store the reply to a turn and let the call go.
-- KEYS  call thread journal leases owed rings
-- ARGV  lease
--       turn#
--       entry     thread entry, JSON
--       owed_ms#
--       channel
--       alert?    a fresh alert, JSON: a human is wanted
--       fields*   pairs of field, JSON value
-- Says  ok | moved (stored, and the caller has said more: wake again), `hurried` when that was danger;
--       both with `alerted` | fenced | unknown | ended
local call = open_call('heard', 'answered', 'cut', 'hurry')
if call.refusal == 'unknown' then
  return say('unknown')
end
local heard, answered = tonumber(call.heard), tonumber(call.answered)
-- Our own lease and already answered: our first run did it and its answer was lost.
if call.ours and answered >= a.turn then
  vouch()
  return say(heard > answered and 'moved' or 'ok', {hurried = is_hurried(call.hurry, answered)})
end
if call.refusal or a.turn ~= answered + 1 then
  return refuse_write(call, 'committed', 'turn', a.turn)
end
local reply = stamped(a.entry)
local cut_turn, cut_text = string.match(call.cut or '', '^{"turn":(%d+),"text":(.*)}$')
if tonumber(cut_turn) == a.turn then
  reply = string.sub(reply, 1, -2) .. ',"heard":' .. cut_text .. '}'
end
redis.call('RPUSH', key.thread, reply)
redis.call('HSET', key.call, 'call_state', call.to, 'answered', a.turn, 'assigned_worker', 'null',
  'attempts', 0, 'draft', 'null', 'cut', 'null', 'updated_at', now, unpack(a.fields))
redis.call('ZREM', key.leases, a.call_sid)
journal('committed', 'turn', a.turn, 'fence', call.fence)
redis.call('PUBLISH', a.channel, a.call_sid .. '\n' .. reply)
local alerted = alarm(a.alert)
if heard > a.turn then
  redis.call('HSET', key.call, 'owed_since', now)
  redis.call('ZADD', key.owed, now + a.owed_ms, a.call_sid)
  return say('moved', {alerted = alerted, hurried = is_hurried(call.hurry, a.turn)})
end
return say('ok', {alerted = alerted})
