-- Give an owed call to one worker and read it whole.
-- KEYS  1 call  2 thread  3 journal  4 leases  5 owed
-- ARGV  1 moves  2 CallSid  3 worker  4 claim id (one per attempt to claim)  5 now_ms or ''
-- Says  claimed, the record as a JSON object | idle (nothing is owed) | unknown
--       | a refusal of the table
-- Run twice with one claim id it answers the same: the first answer may have been lost.
local state, heard, answered, fence, attempts, claim, worker = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'heard', 'answered', 'fence', 'attempts', 'claim',
  'assigned_worker'))
if not state then
  -- An index entry without a record must not be woken for ever.
  redis.call('ZREM', KEYS[5], ARGV[2])
  return {'unknown'}
end
local own_retry = claim == ARGV[4] and worker ~= 'null'
if not own_retry then
  local row = move(ARGV[1], state)
  if row.refuse then
    return {row.refuse}
  end
  if tonumber(heard) <= tonumber(answered) then
    return {'idle'}
  end
  local now = clock(ARGV[5])
  -- The fence grows even when the last holder is us: our earlier, slower self must lose too.
  fence = fence + 1
  redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'fence', fence,
    'claim', ARGV[4], 'assigned_worker', '"' .. ARGV[3] .. '"', 'last_heartbeat', now,
    'updated_at', now)
  redis.call('ZADD', KEYS[4], now, ARGV[2])
  redis.call('ZREM', KEYS[5], ARGV[2])
  journal(KEYS[3], now, 'claimed', 'turn', answered + 1, 'fence', fence, 'worker', ARGV[3],
    'attempts', attempts)
end
-- One string instead of a hundred small ones: the client has less to take apart.
local hash, members = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #hash, 2 do
  if hash[i] ~= 'claim' then
    members[#members + 1] = '"' .. hash[i] .. '":' .. hash[i + 1]
  end
end
local thread = table.concat(redis.call('LRANGE', KEYS[2], 0, -1), ',')
members[#members + 1] = '"conversation_thread":[' .. thread .. ']'
return {'claimed', '{' .. table.concat(members, ',') .. '}'}
