-- A process holds a caller's line open from now on: whoever held it before has lost it.
-- KEYS  call lines holders
-- ARGV  holder     names the socket
--       cover_ms#  for so long the line counts as held without another beat
-- Says  ok | unknown | ended
local outcome = redis.call('HGET', key.call, 'outcome')
if outcome ~= 'null' then
  return say(outcome and 'ended' or 'unknown')
end
redis.call('HSET', key.holders, a.call_sid, a.holder)
redis.call('ZADD', key.lines, now + a.cover_ms, a.call_sid)
return say('ok')
