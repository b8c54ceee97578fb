-- Begin, look up or end a session of somebody who has signed in.
-- KEYS  session     a hash named by the hash of its token
--       signed_out  how often its holder was signed out everywhere: a hash with one count
-- ARGV  what      begin | look | end | end_all
--       holder    JSON, for begin
--       idle_ms#
--       most_ms#  the longest that any session lasts
-- Says  ok, with `holder` when looked up | unknown | ended
local at = tonumber(now)
local round = redis.call('HGET', key.signed_out, 'round') or '0'
if a.what == 'begin' then
  redis.call('HSET', key.session, 'holder', a.holder, 'round', round, 'seen', now,
    'ends', string.format('%.0f', at + a.most_ms))
  redis.call('PEXPIRE', key.session, math.min(a.idle_ms, a.most_ms))
  -- The count outlives every session that was begun at it: one that began anew would let them in.
  redis.call('PEXPIRE', key.signed_out, a.most_ms)
  return say('ok')
end
if a.what == 'end' then
  redis.call('DEL', key.session)
  -- Where it had ended before this is the write that WAIT asks about (run_assured).
  redis.call('HINCRBY', key.signed_out, 'round', 0)
  redis.call('PEXPIRE', key.signed_out, a.most_ms)
  return say('ok')
end
if a.what == 'end_all' then
  redis.call('HINCRBY', key.signed_out, 'round', 1)
  redis.call('PEXPIRE', key.signed_out, a.most_ms)
  return say('ok')
end
local holder, begun_at, seen, ends = unpack(redis.call(
  'HMGET', key.session, 'holder', 'round', 'seen', 'ends'))
if not holder then
  return say('unknown')
end
local left = math.min(a.idle_ms, tonumber(ends) - at)
if begun_at ~= round or left <= 0 or at - tonumber(seen) >= a.idle_ms then
  redis.call('DEL', key.session)
  return say('ended')
end
redis.call('HSET', key.session, 'seen', string.format('%.0f', at))
redis.call('PEXPIRE', key.session, string.format('%.0f', left))
return say('ok', {holder = holder})
