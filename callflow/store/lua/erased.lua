-- The content of a complete call was erased from the lasting store: it goes from here too.
-- KEYS  1 call  2 thread  3 journal  4 audit  5 unarchived  6 archived  7 ended
-- ARGV  1 CallSid
-- Says  gone (there was something) | over (there was nothing)
--       | open (it is not complete: a failover took its end back)
-- Run twice it says `over`.
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if outcome == 'null' or (not outcome and redis.call('EXISTS', KEYS[1]) == 1) then
  return {'open'}
end
local gone = redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
for i = 5, 7 do
  redis.call('ZREM', KEYS[i], ARGV[1])
end
return {gone > 0 and 'gone' or 'over'}
