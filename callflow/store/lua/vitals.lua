-- Keep what the parent process of one worker says of itself; forget who has been silent for long.
-- KEYS  1 what each has said (hash by node)  2 until when each is remembered (sorted set of nodes)
-- ARGV  1 node  2 what it says, as JSON without its time  3 for how long it is kept, ms
--       4 now_ms or ''
-- Says  the time at which it was said
local now = clock(ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], stamped(ARGV[2], now))
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
local silent = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)
if silent[1] then
  redis.call('HDEL', KEYS[1], unpack(silent))
  redis.call('ZREM', KEYS[2], unpack(silent))
end
-- Both keys end with whoever is remembered longest.
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', key, ARGV[3])
  end
end
return now
