-- The caller spoke into a reply: keep how much of it they had heard, beside the whole of it.
-- KEYS  1 call  2 thread  3 journal
-- ARGV  1 moves  2 turn of the reply  3 what was heard, as a JSON string
--       4 how an entry of that reply begins  5 now_ms or ''
-- Says  noted | repeated (it was interrupted before: the first time stands) | unknown (also when
--       there is no such reply) | a refusal of the table
local state, answered, cut = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'answered', 'cut'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
local now = clock(ARGV[5])
if tonumber(ARGV[2]) > tonumber(answered) then
  -- The reply is still being worded: its commit puts this into the thread.
  if string.find(cut or '', '{"turn":' .. ARGV[2] .. ',', 1, true) == 1 then
    return {'repeated'}
  end
  redis.call('HSET', KEYS[1], 'cut', '{"turn":' .. ARGV[2] .. ',"text":' .. ARGV[3] .. '}')
  journal(KEYS[3], now, 'interrupted', 'turn', ARGV[2])
  return {'noted'}
end
for index = redis.call('LLEN', KEYS[2]) - 1, 0, -1 do
  local entry = redis.call('LINDEX', KEYS[2], index)
  if string.find(entry, ARGV[4], 1, true) == 1 then
    if string.find(entry, ',"heard":', 1, true) then
      return {'repeated'}
    end
    redis.call('LSET', KEYS[2], index, string.sub(entry, 1, -2) .. ',"heard":' .. ARGV[3] .. '}')
    journal(KEYS[3], now, 'interrupted', 'turn', ARGV[2])
    return {'noted'}
  end
end
return {'unknown'}
