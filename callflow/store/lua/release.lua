-- Take the lease off a call: its holder hands it back, or the watchdog reclaims it.
-- KEYS  1 call  2 journal  3 leases  4 owed
-- ARGV  1 moves  2 CallSid  3 fence, and claim where its holder asks  4 event (handed_back, reclaimed)  5 reason
--       6 1 when the turn has cost a worker, else 0
--       7 the last beat that the watchdog saw; '' when the holder itself asks
--       8 owed_ms  9 now_ms or ''
-- Says  released, attempts | alive (it has beaten since) | fenced | unknown
--       | a refusal of the table
local state, fence, claim, beat, attempts, answered, worker = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'fence', 'claim', 'last_heartbeat', 'attempts', 'answered',
  'assigned_worker'))
if not state then
  -- An index entry without a record must not be found by every sweep to come.
  redis.call('ZREM', KEYS[3], ARGV[2])
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if not held(ARGV[3], fence, claim) then
  return {'fenced'}
end
if ARGV[7] ~= '' and tonumber(beat) > tonumber(ARGV[7]) then
  return {'alive'}
end
local now = clock(ARGV[9])
attempts = attempts + ARGV[6]
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'assigned_worker', 'null',
  'attempts', attempts, 'owed_since', now, 'updated_at', now)
redis.call('ZREM', KEYS[3], ARGV[2])
redis.call('ZADD', KEYS[4], now + ARGV[8], ARGV[2])
journal(KEYS[2], now, ARGV[4], 'turn', answered + 1, 'fence', fence, 'reason', ARGV[5],
  'attempts', attempts, 'worker', string.sub(worker, 2, -2))
return {'released', attempts}
