-- Complete a call: it ended, or it passed to a human. Its keys get their lifetime here.
-- KEYS  1 call  2 thread  3 journal  4 leases  5 owed  6 active  7 ended
-- ARGV  1 moves  2 CallSid  3 fence of the holder that asks, or ''  4 event (ended, transferred)
--       5 outcome as JSON  6 reason  7 completed_ttl_ms  8 channel
--       9 …  pairs of field, JSON value  last now_ms or ''
-- Says  finished | fenced | unknown | a refusal of the table
local state, fence = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'fence'))
if not state then
  redis.call('ZREM', KEYS[6], ARGV[2])
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if ARGV[3] ~= '' and fence ~= ARGV[3] then
  return {'fenced'}
end
local now = clock(ARGV[#ARGV])
local fields = {}
for i = 9, #ARGV - 1 do
  fields[#fields + 1] = ARGV[i]
end
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'assigned_worker', 'null',
  'outcome', ARGV[5], 'updated_at', now, unpack(fields))
for i = 4, 6 do
  redis.call('ZREM', KEYS[i], ARGV[2])
end
journal(KEYS[3], now, ARGV[4], 'reason', ARGV[6])
redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', now - ARGV[7])
redis.call('ZADD', KEYS[7], now, ARGV[2])
for _, key in ipairs({KEYS[1], KEYS[2], KEYS[3], KEYS[7]}) do
  redis.call('PEXPIRE', key, ARGV[7])
end
redis.call('PUBLISH', ARGV[8], ARGV[2])
return {'finished'}
