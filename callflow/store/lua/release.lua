-- Take the lease off a call: its holder hands it back, or the watchdog reclaims it.
-- KEYS  call journal leases owed
-- ARGV  lease       with its claim where its holder asks
--       event       for the journal: handed_back or reclaimed
--       reason
--       costs?      the turn has cost a worker
--       seen_beat#?  the last beat that the watchdog saw, ms; nil when the holder itself asks
--       owed_ms#
-- Says  ok, `attempts` | alive (it has beaten since) | fenced | unknown | ended
local call = open_call('last_heartbeat', 'attempts', 'answered', 'assigned_worker')
if call.refusal == 'unknown' then
  -- An index entry without a record must not be found by every sweep to come.
  redis.call('ZREM', key.leases, a.call_sid)
end
if call.refusal then
  return say(call.refusal)
end
if a.seen_beat and tonumber(call.last_heartbeat) > a.seen_beat then
  return say('alive')
end
local attempts = call.attempts + (a.costs and 1 or 0)
redis.call('HSET', key.call, 'call_state', call.to, 'assigned_worker', 'null', 'attempts', attempts,
  'owed_since', now, 'updated_at', now)
redis.call('ZREM', key.leases, a.call_sid)
redis.call('ZADD', key.owed, now + a.owed_ms, a.call_sid)
journal(a.event, 'turn', call.answered + 1, 'fence', call.fence, 'reason', a.reason,
  'attempts', attempts, 'worker', string.sub(call.assigned_worker, 2, -2))
return say('ok', {attempts = attempts})
