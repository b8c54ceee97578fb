-- A failover took what was acknowledged: count it, let go of it, and go on behind it.
-- KEYS  1 call  2 journal  3 owed  4 leases
-- ARGV  1 moves  2 CallSid  3 the last turn that whoever asks knows to have been heard
--       4 the last turn whose reply they have passed on to the caller  5 now_ms or ''
-- Says  lost | kept (the record has all of it) | unknown | a refusal of the table
-- Nobody can answer what is lost, and whoever works on an older turn has lost it too.
local state, heard, answered = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'heard', 'answered'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
heard, answered = tonumber(heard), tonumber(answered)
local turn, told = tonumber(ARGV[3]), tonumber(ARGV[4])
local turns = math.max(turn - heard, 0)
local behind = turns > 0 and turn or told
if behind <= answered then
  return {'kept'}
end
local now = clock(ARGV[5])
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'heard', math.max(heard, behind),
  'answered', behind, 'assigned_worker', 'null', 'attempts', 0, 'draft', 'null', 'cut', 'null',
  'owed_since', now, 'updated_at', now)
redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('ZREM', KEYS[4], ARGV[2])
if heard > behind then
  -- More was said than was lost: it is due now, whoever was to be woken for it.
  redis.call('ZADD', KEYS[3], now, ARGV[2])
else
  redis.call('ZREM', KEYS[3], ARGV[2])
end
if turns > 0 then
  redis.call('HINCRBY', KEYS[1], 'lost', turns)
  journal(KEYS[2], now, 'lost', 'turn', turn, 'count', turns)
else
  journal(KEYS[2], now, 'lost', 'write', 'committed', 'turn', told, 'count', told - answered)
end
return {'lost'}
