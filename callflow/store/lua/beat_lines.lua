-- The lines of one shard that one process holds are held on.
-- KEYS  lines holders
-- ARGV  cover_ms#  for so long they count as held without another beat
--       back?      a line that nobody is known to hold is taken back
--       held*      pairs of CallSid, holder
-- Says  ok, `lost` {CallSid …} those that another one holds now, or nobody
local lost = {}
for i = 1, #a.held, 2 do
  local sid, holder = a.held[i], a.held[i + 1]
  local held_by = redis.call('HGET', key.holders, sid)
  if not held_by and a.back then
    redis.call('HSET', key.holders, sid, holder)
    held_by = holder
  end
  if held_by == holder then
    redis.call('ZADD', key.lines, now + a.cover_ms, sid)
  else
    lost[#lost + 1] = sid
  end
end
return say('ok', {lost = lost})
