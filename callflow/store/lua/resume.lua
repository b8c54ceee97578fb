-- The agent has the call again: the human has left the line, or none has come.
-- KEYS  1 call  2 journal  3 rings
-- ARGV  1 moves  2 CallSid  3 handling by the agent as JSON  4 reason
--       5 over: 1 when the ringing is over as well, 0 when the ladder goes on  6 channel
--       7 now_ms or ''
-- Says  resumed | again (the agent had it) | unknown | a refusal of the table
local state, handling = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'handling'))
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
end
journal(KEYS[2], now, 'resumed', 'reason', ARGV[4])
redis.call('PUBLISH', ARGV[6], ARGV[2])
return {'resumed'}
