-- The agent lets go of a call for good: from here on a human has it, or is being rung for it.
-- KEYS  1 call  2 thread  3 journal  4 leases  5 owed  6 rings
-- ARGV  1 moves  2 CallSid  3 fence and claim of the holder that asks, or ''  4 event for the journal
--       5 reason  6 handling as JSON  7 needs_human as JSON, or '' to leave it as it is
--       8 a fresh alert as JSON, or the accepted one  9 accepted: 1 when a human is on the line
--       10 channel  11 now_ms or ''
-- Says  passed | again (a human had it already; an acceptance is kept all the same) | fenced
--       | unknown | a refusal of the table
local state, fence, claim, heard, handling = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'fence', 'claim', 'heard', 'handling'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if ARGV[3] ~= '' and not held(ARGV[3], fence, claim) then
  return {'fenced'}
end
local now = clock(ARGV[11])
local again = handling == ARGV[6]
if again and ARGV[9] ~= '1' then
  return {'again'}
end
-- Whoever words a reply has lost the call, and by the fence every later write: what is owed is
-- answered by the human.
fence = fence + (again and 0 or 1)
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'fence', fence,
  'assigned_worker', 'null', 'answered', heard, 'attempts', 0, 'draft', 'null', 'cut', 'null',
  'handling', ARGV[6], 'updated_at', now)
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'needs_human', ARGV[7])
end
redis.call('ZREM', KEYS[4], ARGV[2])
redis.call('ZREM', KEYS[5], ARGV[2])
local who = ARGV[9] == '1' and cjson.decode(ARGV[8]).who
local by = who and {'by', who} or {}
journal(KEYS[3], now, ARGV[4], 'fence', fence, 'reason', ARGV[5], unpack(by))
if ARGV[9] == '1' then
  redis.call('HSET', KEYS[1], 'alert', ARGV[8], 'alert_due', 'null')
  redis.call('ZREM', KEYS[6], ARGV[2])
else
  alarm(now, ARGV[2], KEYS[1], KEYS[3], KEYS[6], ARGV[8])
end
redis.call('PUBLISH', ARGV[10], ARGV[2])
return {again and 'again' or 'passed'}
