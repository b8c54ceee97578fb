-- Look through one shard for calls that somebody has waited for too long.
-- KEYS  1 leases  2 owed  3 active  4 rings
-- ARGV  1 overdue_ms  2 abandoned_ms  3 how many of each at most
--       4 rewake_ms: for how long a due ring is left to the sweep that found it
--       5 now_ms or ''
-- Says  now, {CallSid, last beat …}, {CallSid …} owed past their deadline, {CallSid …} abandoned,
--       {CallSid …} in which the ladder of humans is to go on
local now = clock(ARGV[5])
local suspects = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1], 'WITHSCORES',
  'LIMIT', 0, ARGV[3])
local unclaimed = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[3])
local abandoned = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[2], 'LIMIT', 0, ARGV[3])
local rings = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, ARGV[3])
for _, sid in ipairs(rings) do
  -- The message may be lost: another sweep asks again. `alert_due` in the record stays as it is.
  redis.call('ZADD', KEYS[4], now + ARGV[4], sid)
end
return {now, suspects, unclaimed, abandoned, rings}
