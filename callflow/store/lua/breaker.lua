-- Decide whether a model may be asked, or keep what came of asking it. All workers share the answer.
-- KEYS  breaker         a hash with a lifetime, absent while all is well
-- ARGV  what            ask | succeeded | failed | barred (no use asking again)
--       attempt         its own name
--       failures#       so many in a row open it
--       first_ms#       first pause
--       longest_ms#     longest pause
--       probe_ms#       how long one probe may take
--       remembered_ms#  how long a quiet breaker is remembered
-- Says  ok | open (the model is left alone); when asked, with `probe`: this attempt alone may try
if a.what == 'succeeded' then
  redis.call('DEL', key.breaker)
  return say('ok')
end
local failures, pause, till, probe, probe_till, last = unpack(redis.call(
  'HMGET', key.breaker, 'failures', 'pause', 'until', 'probe', 'probe_until', 'last'))
local at = tonumber(now)
if a.what == 'ask' then
  if not till then
    return say('ok')
  end
  if at < tonumber(till) then
    return say('open')
  end
  -- A probe that never reported died with its worker: after its time another one may try.
  if probe and probe ~= a.attempt and at < tonumber(probe_till) then
    return say('open')
  end
  redis.call('HSET', key.breaker, 'probe', a.attempt, 'probe_until',
    string.format('%.0f', at + a.probe_ms))
  redis.call('PEXPIRE', key.breaker, a.probe_ms + a.remembered_ms)
  return say('ok', {probe = true})
end
-- The same attempt again is the second run of a report whose answer was lost.
if last == a.attempt then
  return say(till and 'open' or 'ok')
end
failures = tonumber(failures or 0) + 1
redis.call('HSET', key.breaker, 'failures', failures, 'last', a.attempt)
if till and probe ~= a.attempt then
  -- It was asked before the breaker opened: that it failed too is no news.
  return say('open')
end
if not till and a.what == 'failed' and failures < a.failures then
  redis.call('PEXPIRE', key.breaker, a.remembered_ms)
  return say('ok')
end
pause = pause and math.min(pause * 2, a.longest_ms) or a.first_ms
redis.call('HDEL', key.breaker, 'probe', 'probe_until')
redis.call('HSET', key.breaker, 'pause', string.format('%.0f', pause),
  'until', string.format('%.0f', at + pause))
redis.call('PEXPIRE', key.breaker, string.format('%.0f', pause + a.remembered_ms))
return say('open')
