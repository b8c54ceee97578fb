-- Look through one shard for complete calls that the lasting store must have, or may have to hear
-- more of.
-- KEYS  1 unarchived  2 archived
-- ARGV  1 how many of each at most  2 now_ms or ''
-- Says  now, {CallSid, when it ended …} not archived yet, how many those are,
--       {CallSid …} archived whose journal may have grown since
local now = clock(ARGV[2])
local waiting = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
local again = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])
return {now, waiting, redis.call('ZCARD', KEYS[1]), again}
