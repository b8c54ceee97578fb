-- Find calls of one shard in which nothing has been said for long: each is given to one asker.
-- KEYS  active asked
-- ARGV  quiet_ms#
--       most#
-- Says  ok, `calls` {CallSid …}
-- `asked` is by the time at which the carrier was last to be asked about a line.
-- Whoever was given one and died, or was told that the line is open: it is given again.
redis.call('ZREMRANGEBYSCORE', key.asked, '-inf', now - a.quiet_ms)
local found = {}
for _, sid in ipairs(redis.call('ZRANGEBYSCORE', key.active, '-inf', now - a.quiet_ms)) do
  if #found == a.most then
    break
  end
  if not redis.call('ZSCORE', key.asked, sid) then
    redis.call('ZADD', key.asked, now, sid)
    found[#found + 1] = sid
  end
end
if #found > 0 then
  redis.call('PEXPIRE', key.asked, a.quiet_ms)
end
return say('ok', {calls = found})
