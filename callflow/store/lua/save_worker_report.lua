-- Keep what the parent process of one worker says of itself; forget who has been silent for long.
-- KEYS  reports       what each has said: hash by node
--       remembered    until when each is remembered: sorted set of nodes
-- ARGV  node
--       said          JSON
--       kept_ms#
-- Says  ok
redis.call('HSET', key.reports, a.node, stamped(a.said))
redis.call('ZADD', key.remembered, now + a.kept_ms, a.node)
local silent = redis.call('ZRANGEBYSCORE', key.remembered, '-inf', now, 'LIMIT', 0, 100)
if silent[1] then
  redis.call('HDEL', key.reports, unpack(silent))
  redis.call('ZREM', key.remembered, unpack(silent))
end
-- Both keys end with whoever is remembered longest.
for _, one in ipairs({key.reports, key.remembered}) do
  if redis.call('PTTL', one) < a.kept_ms then
    redis.call('PEXPIRE', one, a.kept_ms)
  end
end
return say('ok')
