-- Begin, look up or end a session of somebody who has signed in.
-- KEYS  1 the session: a hash named by the hash of its token  2 how often its holder was signed out
--       everywhere: a hash with one count, in the same slot
-- ARGV  1 what: begin | look | end | end_all  2 the holder as JSON, for begin  3 idle_ms
--       4 most_ms: the longest that any session lasts  5 now_ms or ''
-- Says  begun | known, with the holder | unknown | ended
local what, now = ARGV[1], tonumber(clock(ARGV[5]))
local idle, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local round = redis.call('HGET', KEYS[2], 'round') or '0'
if what == 'begin' then
  redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'round', round, 'seen', now,
    'ends', string.format('%.0f', now + most))
  redis.call('PEXPIRE', KEYS[1], math.min(idle, most))
  -- The count outlives every session that was begun at it: one that began anew would let them in.
  redis.call('PEXPIRE', KEYS[2], most)
  return {'begun'}
end
if what == 'end' then
  redis.call('DEL', KEYS[1])
  -- Where it had ended before this is the write that WAIT asks about (run_assured).
  redis.call('HINCRBY', KEYS[2], 'round', 0)
  redis.call('PEXPIRE', KEYS[2], most)
  return {'ended'}
end
if what == 'end_all' then
  redis.call('HINCRBY', KEYS[2], 'round', 1)
  redis.call('PEXPIRE', KEYS[2], most)
  return {'ended'}
end
local holder, begun_at, seen, ends = unpack(redis.call(
  'HMGET', KEYS[1], 'holder', 'round', 'seen', 'ends'))
if not holder then
  return {'unknown'}
end
local left = math.min(idle, tonumber(ends) - now)
if begun_at ~= round or left <= 0 or now - tonumber(seen) >= idle then
  redis.call('DEL', KEYS[1])
  return {'ended'}
end
redis.call('HSET', KEYS[1], 'seen', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
return {'known', holder}
