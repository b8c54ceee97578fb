-- Look through one shard for calls that somebody has waited for too long.
-- KEYS  1 leases  2 owed  3 active
-- ARGV  1 overdue_ms  2 abandoned_ms  3 how many of each at most  4 now_ms or ''
-- Says  now, {CallSid, last beat …}, {CallSid …} owed past their deadline, {CallSid …} abandoned
local now = clock(ARGV[4])
local suspects = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1], 'WITHSCORES',
  'LIMIT', 0, ARGV[3])
local unclaimed = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[3])
local abandoned = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[2], 'LIMIT', 0, ARGV[3])
return {now, suspects, unclaimed, abandoned}
