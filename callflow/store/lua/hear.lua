-- Store what the caller said in one turn, once per turn number.
-- KEYS  1 call  2 thread  3 journal  4 owed  5 active
-- ARGV  1 moves  2 CallSid  3 turn, from 1  4 thread entry without its time
--       5 owed_ms  6 now_ms or ''
-- Says  heard, wake|quiet | repeated | ahead, turns heard | unknown | a refusal of the table
--       `wake`: nobody works on the call and no message for it is on its way yet.
local state, heard, answered, worker = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'heard', 'answered', 'assigned_worker'))
if not state then
  return {'unknown'}
end
local turn = tonumber(ARGV[3])
heard, answered = tonumber(heard), tonumber(answered)
-- Before the table: a repeated webhook is recognised even when the call has ended meanwhile.
if turn <= heard then
  return {'repeated'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if turn > heard + 1 then
  return {'ahead', heard}
end
local now = clock(ARGV[6])
redis.call('RPUSH', KEYS[2], stamped(ARGV[4], now))
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'heard', turn, 'updated_at', now)
redis.call('ZADD', KEYS[5], now, ARGV[2])
journal(KEYS[3], now, 'heard', 'turn', turn)
if worker ~= 'null' then
  return {'heard', 'quiet'}
end
if heard > answered then
  -- Owed already: that turn's own message, or its deadline, brings a worker to this one too.
  return {'heard', 'quiet'}
end
redis.call('HSET', KEYS[1], 'owed_since', now)
redis.call('ZADD', KEYS[4], now + ARGV[5], ARGV[2])
return {'heard', 'wake'}
