-- Complete a call: its line is closed. Its keys get their lifetime here, or, where records last, once
-- the lasting store has them (archived.lua).
-- KEYS  1 call  2 thread  3 journal  4 leases  5 owed  6 active  7 rings  8 ended  9 unarchived
-- ARGV  1 moves  2 CallSid  3 outcome as JSON  4 reason  5 completed_ttl_ms  6 channel
--       7 1 where records last, else 0  8 now_ms or ''
-- Says  finished | unknown | a refusal of the table
local state = redis.call('HGET', KEYS[1], 'call_state')
if not state then
  redis.call('ZREM', KEYS[6], ARGV[2])
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  vouch(KEYS[1])
  return {row.refuse}
end
local now = clock(ARGV[8])
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'assigned_worker', 'null',
  'outcome', ARGV[3], 'updated_at', now)
for i = 4, 7 do
  redis.call('ZREM', KEYS[i], ARGV[2])
end
journal(KEYS[3], now, 'ended', 'reason', ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[8], '-inf', now - ARGV[5])
redis.call('ZADD', KEYS[8], now, ARGV[2])
if ARGV[7] == '1' then
  redis.call('ZADD', KEYS[9], now, ARGV[2])
  redis.call('PEXPIRE', KEYS[8], ARGV[5])
else
  for _, key in ipairs({KEYS[1], KEYS[2], KEYS[3], KEYS[8]}) do
    redis.call('PEXPIRE', key, ARGV[5])
  end
end
redis.call('PUBLISH', ARGV[6], ARGV[2])
return {'finished'}
