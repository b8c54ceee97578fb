-- Write one line into the journal of a call, if there is one: its record stays as it is.
-- KEYS  1 call  2 journal
-- ARGV  1 event  2 reason  3 now_ms or ''
-- Says  noted | ended (its lifetime must not be lost) | unknown
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if not outcome then
  return {'unknown'}
end
if outcome ~= 'null' then
  return {'ended'}
end
journal(KEYS[2], clock(ARGV[3]), ARGV[1], 'reason', ARGV[2])
return {'noted'}
