-- Count a try to sign in before it is looked at, or take it back once it was right.
-- KEYS  what is counted, a hash with one count each, in one slot: the address, the name from that
--       address, the name from anywhere
-- ARGV  1 what: try | right  2 … for each key in turn: how many are allowed, in how many ms
-- Says  free | over, with the ms to wait
if ARGV[1] == 'right' then
  for _, key in ipairs(KEYS) do
    -- What has expired meanwhile must not come back as a count without a lifetime.
    if redis.call('EXISTS', key) == 1 then
      redis.call('HINCRBY', key, 'tries', -1)
    end
  end
  return {'free'}
end
local wait = 0
for i, key in ipairs(KEYS) do
  if tonumber(redis.call('HGET', key, 'tries') or 0) >= tonumber(ARGV[2 * i]) then
    wait = math.max(wait, redis.call('PTTL', key))
  end
end
if wait > 0 then
  return {'over', wait}
end
for i, key in ipairs(KEYS) do
  if redis.call('HINCRBY', key, 'tries', 1) == 1 then
    redis.call('PEXPIRE', key, ARGV[2 * i + 1])
  end
end
return {'free'}
