-- Write one line into the journal of a call, if there is one: its record stays as it is.
-- KEYS  1 call  2 journal
-- ARGV  1 event  2 reason  3 a name for this line that no other one has  4 now_ms or ''
-- Says  noted | ended (its lifetime must not be lost) | unknown
-- Run twice with one name it writes one line: the first answer may have been lost.
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if not outcome then
  return {'unknown'}
end
if outcome ~= 'null' then
  return {'ended'}
end
for _, line in ipairs(redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 10)) do
  local fields = line[2]
  if fields[#fields - 1] == 'line' and fields[#fields] == ARGV[3] then
    return {'noted'}
  end
end
journal(KEYS[2], clock(ARGV[4]), ARGV[1], 'reason', ARGV[2], 'line', ARGV[3])
return {'noted'}
