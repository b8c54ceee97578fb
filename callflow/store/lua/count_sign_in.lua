-- Count a try to sign in before it is looked at, or take it back once it was right.
-- KEYS  address pair name   what is counted, a hash with one count each, in one slot
-- ARGV  right?    it was right
--       allowed*  for each key in turn: how many are allowed, in how many ms
-- Says  ok | full, `wait_ms`
local counted = {key.address, key.pair, key.name}
if a.right then
  for _, one in ipairs(counted) do
    -- What has expired meanwhile must not come back as a count without a lifetime.
    if redis.call('EXISTS', one) == 1 then
      redis.call('HINCRBY', one, 'tries', -1)
    end
  end
  return say('ok')
end
local wait = 0
for i, one in ipairs(counted) do
  if tonumber(redis.call('HGET', one, 'tries') or 0) >= tonumber(a.allowed[2 * i - 1]) then
    wait = math.max(wait, redis.call('PTTL', one))
  end
end
if wait > 0 then
  return say('full', {wait_ms = wait})
end
for i, one in ipairs(counted) do
  if redis.call('HINCRBY', one, 'tries', 1) == 1 then
    redis.call('PEXPIRE', one, a.allowed[2 * i])
  end
end
return say('ok')
