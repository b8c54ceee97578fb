-- Write one line into the journal of a call, if there is one: its record stays as it is.
-- KEYS  call journal
-- ARGV  event
--       reason
--       line     a name for this line that no other one has: run twice with it, one line is written
-- Says  ok | ended (its lifetime must not be lost) | unknown
local outcome = redis.call('HGET', key.call, 'outcome')
if not outcome then
  return say('unknown')
end
if outcome ~= 'null' then
  return say('ended')
end
for _, line in ipairs(redis.call('XREVRANGE', key.journal, '+', '-', 'COUNT', 10)) do
  local fields = line[2]
  if fields[#fields - 1] == 'line' and fields[#fields] == a.line then
    return say('ok')
  end
end
journal(a.event, 'reason', a.reason, 'line', a.line)
return say('ok')
