-- Look through one shard for calls that somebody has waited for too long.
-- KEYS  leases owed active rings
-- ARGV  overdue_ms#
--       abandoned_ms#
--       most         how many of each at most
--       rewake_ms#   for how long a due ring is left to the sweep that found it
-- Says  ok, `now`, `overdue` {CallSid, last beat …}, `unclaimed` {CallSid …} owed past their deadline,
--       `abandoned` {CallSid …}, `rings` {CallSid …} in which the ladder of humans is to go on
local function due(index, until_ms, ...)
  return redis.call('ZRANGEBYSCORE', index, '-inf', until_ms, ...)
end
local rings = due(key.rings, now, 'LIMIT', 0, a.most)
for _, sid in ipairs(rings) do
  -- The message may be lost: another sweep asks again. `alert_due` in the record stays as it is.
  redis.call('ZADD', key.rings, now + a.rewake_ms, sid)
end
return say('ok', {
  now = now,
  overdue = due(key.leases, now - a.overdue_ms, 'WITHSCORES', 'LIMIT', 0, a.most),
  unclaimed = due(key.owed, now, 'LIMIT', 0, a.most),
  abandoned = due(key.active, now - a.abandoned_ms, 'LIMIT', 0, a.most),
  rings = rings,
})
