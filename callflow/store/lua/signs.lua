-- Read what the parent processes of workers have said of themselves, and what time it is.
-- KEYS  1 what each has said (hash by node)
-- ARGV  1 the one node that is asked for, or ''  2 now_ms or ''
-- Says  now, what was said
local now = clock(ARGV[2])
if ARGV[1] == '' then
  return {now, redis.call('HVALS', KEYS[1])}
end
local said = redis.call('HGET', KEYS[1], ARGV[1])
return {now, said and {said} or {}}
