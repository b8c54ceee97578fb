-- Decide whether a model may be asked, or keep what came of asking it. All workers share the answer.
-- KEYS  1 the model's breaker: a hash with a lifetime, absent while all is well
-- ARGV  1 what: ask | succeeded | failed | barred (no use asking again)  2 the attempt's own name
--       3 failures in a row that open it  4 first pause, ms  5 longest pause, ms
--       6 how long one probe may take, ms  7 how long a quiet breaker is remembered, ms
--       8 now_ms or ''
-- Says  ask: free | probe (this attempt alone may try) | open
--       else: closed | counted | open
local what, attempt = ARGV[1], ARGV[2]
if what == 'succeeded' then
  redis.call('DEL', KEYS[1])
  return {'closed'}
end
local failures, pause, till, probe, probe_till, last = unpack(redis.call(
  'HMGET', KEYS[1], 'failures', 'pause', 'until', 'probe', 'probe_until', 'last'))
local now = tonumber(clock(ARGV[8]))
if what == 'ask' then
  if not till then
    return {'free'}
  end
  if now < tonumber(till) then
    return {'open'}
  end
  -- A probe that never reported died with its worker: after its time another one may try.
  if probe and probe ~= attempt and now < tonumber(probe_till) then
    return {'open'}
  end
  redis.call('HSET', KEYS[1], 'probe', attempt, 'probe_until', string.format('%.0f', now + ARGV[6]))
  redis.call('PEXPIRE', KEYS[1], ARGV[6] + ARGV[7])
  return {'probe'}
end
-- The same attempt again is the second run of a report whose answer was lost.
if last == attempt then
  return {till and 'open' or 'counted'}
end
failures = tonumber(failures or 0) + 1
redis.call('HSET', KEYS[1], 'failures', failures, 'last', attempt)
if till and probe ~= attempt then
  -- It was asked before the breaker opened: that it failed too is no news.
  return {'open'}
end
if not till and what == 'failed' and failures < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
  return {'counted'}
end
pause = pause and math.min(pause * 2, tonumber(ARGV[5])) or tonumber(ARGV[4])
redis.call('HDEL', KEYS[1], 'probe', 'probe_until')
redis.call('HSET', KEYS[1], 'pause', string.format('%.0f', pause),
  'until', string.format('%.0f', now + pause))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', pause + ARGV[7]))
return {'open'}
