-- Find calls of one shard in which nothing has been said for long: each is given to one asker.
-- KEYS  1 active  2 asked: by the time at which the carrier was last to be asked about a line
-- ARGV  1 quiet_ms  2 how many at most  3 now_ms or ''
-- Says  {CallSid …}
local now = clock(ARGV[3])
-- Whoever was given one and died, or was told that the line is open: it is given again.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[1])
local found = {}
for _, sid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])) do
  if #found == tonumber(ARGV[2]) then
    break
  end
  if not redis.call('ZSCORE', KEYS[2], sid) then
    redis.call('ZADD', KEYS[2], now, sid)
    found[#found + 1] = sid
  end
end
if #found > 0 then
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
return found
