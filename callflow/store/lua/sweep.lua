-- Look through one shard for calls that somebody has waited for too long.
-- KEYS  leases owed active rings lines looked
-- ARGV  overdue_ms#
--       abandoned_ms#
--       most         how many of each at most
--       rewake_ms#   for how long a due ring or line is left to the sweep that found it
--       gap_ms#      no look for so long: nobody was there, and lines are given as long once more
-- Says  ok, `now`, `overdue` {CallSid, last beat …}, `unclaimed` {CallSid …} owed past their deadline,
--       `abandoned` {CallSid …}, `rings` {CallSid …} in which the ladder of humans is to go on,
--       `lines` {CallSid …} whose callers no process of ours listens to any more
local function due(index, until_ms, ...)
  return redis.call('ZRANGEBYSCORE', index, '-inf', until_ms, ...)
end
local rings = due(key.rings, now, 'LIMIT', 0, a.most)
for _, sid in ipairs(rings) do
  -- The message may be lost: another sweep asks again. `alert_due` in the record stays as it is.
  redis.call('ZADD', key.rings, now + a.rewake_ms, sid)
end
local lines = {}
if redis.call('EXISTS', key.lines) == 1 then
  -- After a gap in the looks themselves (an outage, a machine that stood still) the holders may not
  -- have been able to beat either.
  local gap = redis.call('EXISTS', key.looked) == 0
  redis.call('SET', key.looked, 1, 'PX', a.gap_ms)
  lines = due(key.lines, now, 'LIMIT', 0, a.most)
  for _, sid in ipairs(lines) do
    redis.call('ZADD', key.lines, now + (gap and a.gap_ms or a.rewake_ms), sid)
  end
  lines = gap and {} or lines
end
return say('ok', {
  now = now,
  overdue = due(key.leases, now - a.overdue_ms, 'WITHSCORES', 'LIMIT', 0, a.most),
  unclaimed = due(key.owed, now, 'LIMIT', 0, a.most),
  abandoned = due(key.active, now - a.abandoned_ms, 'LIMIT', 0, a.most),
  rings = rings,
  lines = lines,
})
