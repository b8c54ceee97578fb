-- Give an owed call to one worker and read it whole.
-- KEYS  call thread journal leases owed
-- ARGV  worker
--       claim     names this attempt to claim: asked again with it the same lease is given, since the
--                 first answer may have been lost
-- Says  ok, `record` as a JSON object | idle (nothing is owed) | unknown | held | ended
local call = open_call('heard', 'answered', 'attempts', 'assigned_worker')
if call.refusal == 'unknown' then
  -- An index entry without a record must not be woken for ever.
  redis.call('ZREM', key.owed, a.call_sid)
  return say('unknown')
end
if call.claim ~= a.claim or call.assigned_worker == 'null' then
  if call.refusal then
    return say(call.refusal)
  end
  if tonumber(call.heard) <= tonumber(call.answered) then
    return say('idle')
  end
  -- The fence grows even when the last holder is us: our earlier, slower self must lose too.
  local fence = call.fence + 1
  redis.call('HSET', key.call, 'call_state', call.to, 'fence', fence, 'claim', a.claim,
    'assigned_worker', '"' .. a.worker .. '"', 'last_heartbeat', now, 'updated_at', now)
  redis.call('ZADD', key.leases, now, a.call_sid)
  redis.call('ZREM', key.owed, a.call_sid)
  journal('claimed', 'turn', call.answered + 1, 'fence', fence, 'worker', a.worker,
    'attempts', call.attempts)
end
-- One string instead of a hundred small ones: the client has less to take apart.
local hash, members = redis.call('HGETALL', key.call), {}
for i = 1, #hash, 2 do
  if hash[i] ~= 'claim' then
    members[#members + 1] = '"' .. hash[i] .. '":' .. hash[i + 1]
  end
end
local thread = table.concat(redis.call('LRANGE', key.thread, 0, -1), ',')
members[#members + 1] = '"conversation_thread":[' .. thread .. ']'
return say('ok', {record = '{' .. table.concat(members, ',') .. '}'})
