-- Look through one shard for complete calls that the lasting store must have, or may have to hear
-- more of.
-- KEYS  unarchived archived
-- ARGV  most#   of each at most
-- Says  ok, `now`, `waiting` {CallSid, when it ended …} not archived yet, `count` of those,
--       `again` {CallSid …} archived whose journal may have grown since
return say('ok', {
  now = now,
  waiting = redis.call('ZRANGE', key.unarchived, 0, a.most - 1, 'WITHSCORES'),
  count = redis.call('ZCARD', key.unarchived),
  again = redis.call('ZRANGEBYSCORE', key.archived, '-inf', now, 'LIMIT', 0, a.most),
})
