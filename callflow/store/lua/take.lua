-- A person wants the call: their telephone is rung, whoever is being rung for it now.
-- KEYS  1 call  2 journal  3 rings
-- ARGV  1 moves  2 CallSid  3 the alert for them, JSON  4 who  5 seen  6 request
--       7 handling of a call that a human has, as JSON  8 now_ms or ''
-- Says  done, the alert that stood before as JSON | again | told, who, when (somebody was first)
--       | with_human, who | unknown | a refusal of the table
-- The agent goes on talking: nobody is moved before there is somebody to be moved to.
local state, handling, alert = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'handling', 'alert'))
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
local human, who = with_human(handling, alert, ARGV[7])
if human then
  return {'with_human', who}
end
local first = overtaken(KEYS[1], 'call', ARGV[5])
if first then
  return first
end
local now = clock(ARGV[8])
redis.call('HSET', KEYS[1], 'alert', ARGV[3], 'alert_due', now)
redis.call('ZADD', KEYS[3], now, ARGV[2])
act(KEYS[1], 'call', ARGV[4], now)
journal(KEYS[2], now, 'taken_over', 'by', ARGV[4], 'request', ARGV[6])
return {'done', alert or 'null'}
