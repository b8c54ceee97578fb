-- The lasting store has a call, up to a line of its journal and one of its audit: its keys get their
-- lifetime, or, when that is over, end.
-- KEYS  call thread journal audit unarchived archived
-- ARGV  through   ids of the last lines that are archived, of journal and audit, with a space
--       completed_ttl_ms#
--       again_ms#  after how long it is looked at again
-- Says  kept | grown (there are later lines: archive them, and ask again)
--       | over (its keys are gone) | open (it is not complete: a failover took its end back)
-- Run twice it answers the same.
local outcome = redis.call('HGET', key.call, 'outcome')
if not outcome or outcome == 'null' then
  redis.call('ZREM', key.unarchived, a.call_sid)
  redis.call('ZREM', key.archived, a.call_sid)
  return say(outcome and 'open' or 'over')
end
local last = {}
for _, stream in ipairs({key.journal, key.audit}) do
  local line = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  last[#last + 1] = line and line[1] or ''
end
if table.concat(last, ' ') ~= a.through then
  return say('grown')
end
local left = redis.call('PTTL', key.call)
if left < 0 then
  -- Longer than it is looked at, so that no line is written between the last look and the end.
  left = a.completed_ttl_ms + a.again_ms
  for _, own in ipairs({key.call, key.thread, key.journal, key.audit}) do
    redis.call('PEXPIRE', own, string.format('%.0f', left))
  end
  redis.call('ZREM', key.unarchived, a.call_sid)
elseif left <= a.again_ms then
  redis.call('DEL', key.call, key.thread, key.journal, key.audit)
  redis.call('ZREM', key.archived, a.call_sid)
  return say('over')
end
redis.call('ZADD', key.archived, now + math.min(a.again_ms, left - a.again_ms), a.call_sid)
-- The index ends with the calls that it names.
if redis.call('PTTL', key.archived) < left then
  redis.call('PEXPIRE', key.archived, string.format('%.0f', left))
end
return say('kept')
