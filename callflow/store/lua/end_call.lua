-- Complete a call: its line is closed, or a person ends it, and then what became of it is kept. Its
-- keys get their lifetime here, or, where records last, once the lasting store has them
-- (settle_archived.lua).
-- KEYS  call thread journal leases owed active rings lines holders ended unarchived
-- ARGV  outcome   JSON
--       reason    the same, for the journal
--       completed_ttl_ms#
--       channel
--       archiving?  records last
--       by?       the person who ends it; the last three are theirs
--       seen#?    how often they saw that somebody had acted on the call
--       request?  the name of what they ask for
--       judged_at?  `updated_at` of the record that they have judged; nil when they are sure
-- Says  ok | unknown | ended
--       to a person also: again | stale, `by`, `at` (somebody was first), or with nothing (the record
--       has changed since it was judged)
if a.request and done_before() then
  return say('again')
end
local call = open_call('updated_at')
if call.refusal == 'unknown' then
  redis.call('ZREM', key.active, a.call_sid)
  return say('unknown')
end
if call.refusal then
  vouch()
  return say(call.refusal)
end
if a.by then
  local first = overtaken('call')
  if first then
    return first
  end
  if a.judged_at and a.judged_at ~= call.updated_at then
    return say('stale')
  end
  redis.call('HSET', key.call, 'disposition', '{"what":' .. a.outcome .. ',"by":'
    .. cjson.encode(a.by) .. ',"at":' .. now .. '}')
  count_act('call')
  journal('disposed', 'reason', a.reason, 'by', a.by, 'request', a.request)
end
redis.call('HSET', key.call, 'call_state', call.to, 'assigned_worker', 'null', 'outcome', a.outcome,
  'updated_at', now)
for _, index in ipairs({key.leases, key.owed, key.active, key.rings, key.lines}) do
  redis.call('ZREM', index, a.call_sid)
end
redis.call('HDEL', key.holders, a.call_sid)
journal('ended', 'reason', a.reason)
redis.call('ZREMRANGEBYSCORE', key.ended, '-inf', now - a.completed_ttl_ms)
redis.call('ZADD', key.ended, now, a.call_sid)
redis.call('PEXPIRE', key.ended, a.completed_ttl_ms)
if a.archiving then
  redis.call('ZADD', key.unarchived, now, a.call_sid)
else
  for _, own in ipairs({key.call, key.thread, key.journal}) do
    redis.call('PEXPIRE', own, a.completed_ttl_ms)
  end
end
redis.call('PUBLISH', a.channel, a.call_sid)
return say('ok')
