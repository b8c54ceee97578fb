-- No process of ours holds this line any more. The carrier has it, and asks us for what comes next; or
-- that is to be seen: then it is due soon.
-- KEYS  lines holders
-- ARGV  holder?   the one that lets go; nil for whoever it is
--       due_ms#?  nil where the carrier has the line
-- Says  ok | fenced (another holder has taken the line since)
local held_by = redis.call('HGET', key.holders, a.call_sid)
if a.holder and held_by and held_by ~= a.holder then
  return say('fenced')
end
if a.due_ms then
  redis.call('ZADD', key.lines, 'XX', now + a.due_ms, a.call_sid)
  return say('ok')
end
redis.call('HDEL', key.holders, a.call_sid)
redis.call('ZREM', key.lines, a.call_sid)
return say('ok')
