-- Renew one lease.
-- KEYS  1 call  2 journal  3 leases
-- ARGV  1 moves  2 CallSid  3 fence  4 now_ms or ''
-- Says  beaten | fenced | unknown | a refusal of the table
local state, fence = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'fence'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
local now = clock(ARGV[4])
if row.refuse or fence ~= ARGV[3] then
  journal(KEYS[2], now, 'refused', 'write', 'beat', 'fence', ARGV[3])
  return {row.refuse or 'fenced'}
end
redis.call('HSET', KEYS[1], 'last_heartbeat', now)
redis.call('ZADD', KEYS[3], now, ARGV[2])
return {'beaten'}
