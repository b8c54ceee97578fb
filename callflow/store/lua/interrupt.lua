-- The caller spoke into a reply: keep how much of it they had heard, beside the whole of it.
-- KEYS  call thread journal
-- ARGV  turn#    of the reply
--       heard    what was heard, a JSON string
--       begins   how an entry of that reply begins
-- Says  ok | again (it was interrupted before: the first time stands) | unknown (also when there is no
--       such reply) | ended
local call = open_call('answered', 'cut')
if call.refusal then
  return say(call.refusal)
end
if a.turn > tonumber(call.answered) then
  -- The reply is still being worded: its commit puts this into the thread.
  local cut = '{"turn":' .. a.turn .. ','
  if string.find(call.cut or '', cut, 1, true) == 1 then
    return say('again')
  end
  redis.call('HSET', key.call, 'cut', cut .. '"text":' .. a.heard .. '}')
  journal('interrupted', 'turn', a.turn)
  return say('ok')
end
for index = redis.call('LLEN', key.thread) - 1, 0, -1 do
  local entry = redis.call('LINDEX', key.thread, index)
  if string.find(entry, a.begins, 1, true) == 1 then
    if string.find(entry, ',"heard":', 1, true) then
      return say('again')
    end
    redis.call('LSET', key.thread, index, string.sub(entry, 1, -2) .. ',"heard":' .. a.heard .. '}')
    journal('interrupted', 'turn', a.turn)
    return say('ok')
  end
end
return say('unknown')
