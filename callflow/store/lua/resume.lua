-- The agent has the call again: the human has left the line, or none has come.
-- KEYS  1 call  2 journal  3 rings
-- ARGV  1 moves  2 CallSid  3 handling by the agent as JSON  4 reason
--       5 over: 1 when the ringing is over as well, 0 when the ladder goes on  6 channel
--       7 now_ms or ''
-- Says  resumed | again (the agent had it) | unknown | a refusal of the table
-- More letters than any reply has.
local WHOLE = 1000000
local state, handling, answered, sent = unpack(
  redis.call('HMGET', KEYS[1], 'call_state', 'handling', 'answered', 'sent'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if handling == ARGV[3] then
  return {'again'}
end
local now = clock(ARGV[7])
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'handling', ARGV[3],
  'updated_at', now)
if ARGV[5] == '1' then
  redis.call('HSET', KEYS[1], 'alert', 'null', 'alert_due', 'null')
  redis.call('ZREM', KEYS[3], ARGV[2])
  -- The human has spoken since: what they cut off of our last reply is not said any more.
  local tells = sent and sent ~= 'null' and tonumber(cjson.decode(sent).played)
  redis.call('HSET', KEYS[1], 'sent', string.format(
    '{"turn":%d,"length":%d,"at":%.0f,"left_ms":0,"played":%s}', answered, WHOLE, now,
    tells and string.format('%d', WHOLE) or 'null'))
end
journal(KEYS[2], now, 'resumed', 'reason', ARGV[4])
redis.call('PUBLISH', ARGV[6], ARGV[2])
return {'resumed'}
