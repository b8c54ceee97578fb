-- Write fields of a turn that is being worked on: what was understood, what has been said so far.
-- KEYS  1 call  2 journal  3 rings
-- ARGV  1 moves  2 CallSid  3 fence  4 what is noted (drafted, understood)  5 channel or ''
--       6 what is published behind the CallSid  7 a fresh alert as JSON: a human is wanted; or ''
--       8 …  pairs of field, JSON value  last now_ms or ''
-- Says  noted, with alerted | calm | fenced | unknown | a refusal of the table
local state, fence = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'fence'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
local now = clock(ARGV[#ARGV])
if row.refuse or fence ~= ARGV[3] then
  local word = row.refuse or 'fenced'
  journal(KEYS[2], now, 'refused', 'write', ARGV[4], 'fence', ARGV[3], 'reason', word)
  return {word}
end
local fields, changed = {}, false
for i = 8, #ARGV - 2, 2 do
  fields[#fields + 1] = ARGV[i]
  fields[#fields + 1] = ARGV[i + 1]
  changed = changed or redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1]
end
-- Unchanged means that this is the second run of a write whose answer was lost.
if changed then
  redis.call('HSET', KEYS[1], 'updated_at', now, unpack(fields))
  journal(KEYS[2], now, ARGV[4], 'fence', fence)
  if ARGV[5] ~= '' then
    redis.call('PUBLISH', ARGV[5], ARGV[2] .. ARGV[6])
  end
end
return {'noted', alarm(now, ARGV[2], KEYS[1], KEYS[2], KEYS[3], ARGV[7]) and 'alerted' or 'calm'}
