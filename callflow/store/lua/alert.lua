-- Move the ladder of humans on, unless somebody else has moved it.
-- KEYS  1 call  2 journal  3 rings
-- ARGV  1 moves  2 CallSid  3 the alert as it was read, JSON  4 the alert as it shall be, JSON
--       5 in how many ms the ladder goes on; '' when it does not  6 event for the journal
--       7 rung  8 reason or ''  9 needs_human as JSON, or '' to leave it as it is  10 now_ms or ''
-- Says  moved | stale (it is not as it was read) | unknown | a refusal of the table
-- Run twice it answers the same: each attempt to ring has a name of its own in the alert.
local state, alert = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'alert'))
if not state then
  redis.call('ZREM', KEYS[3], ARGV[2])
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  redis.call('ZREM', KEYS[3], ARGV[2])
  return {row.refuse}
end
if alert == ARGV[4] then
  return {'moved'}
end
if (alert or 'null') ~= ARGV[3] then
  return {'stale'}
end
local now = clock(ARGV[10])
redis.call('HSET', KEYS[1], 'alert', ARGV[4], 'updated_at', now)
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[1], 'needs_human', ARGV[9])
end
if ARGV[5] == '' then
  redis.call('HSET', KEYS[1], 'alert_due', 'null')
  redis.call('ZREM', KEYS[3], ARGV[2])
else
  redis.call('HSET', KEYS[1], 'alert_due', now + ARGV[5])
  redis.call('ZADD', KEYS[3], now + ARGV[5], ARGV[2])
end
journal(KEYS[2], now, ARGV[6], 'rung', ARGV[7], 'reason', ARGV[8])
return {'moved'}
