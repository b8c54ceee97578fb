-- Renew one lease.
-- KEYS  call journal leases
-- ARGV  lease
-- Says  ok | fenced | unknown | ended
local call = open_call()
if call.ours == false then
  return refuse_write(call, 'beat')
end
-- Our own fence and refused: the holder's commit has overtaken its beat, or it is about to be told
-- that it was reclaimed. No line for either.
if call.refusal then
  return say(call.refusal)
end
redis.call('HSET', key.call, 'last_heartbeat', now)
redis.call('ZADD', key.leases, now, a.call_sid)
return say('ok')
