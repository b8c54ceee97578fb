-- Renew one lease.
-- KEYS  1 call  2 journal  3 leases
-- ARGV  1 moves  2 CallSid  3 fence and claim  4 now_ms or ''
-- Says  beaten | fenced | unknown | a refusal of the table
local state, fence, claim = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'fence', 'claim'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
local now = clock(ARGV[4])
local ours, number = held(ARGV[3], fence, claim)
if not ours then
  local word = row.refuse or 'fenced'
  journal(KEYS[2], now, 'refused', 'write', 'beat', 'fence', number, 'reason', word)
  return {word}
end
-- Our own fence and refused: the holder's commit has overtaken its beat, or it is about to be told
-- that it was reclaimed. No line for either.
if row.refuse then
  return {row.refuse}
end
redis.call('HSET', KEYS[1], 'last_heartbeat', now)
redis.call('ZADD', KEYS[3], now, ARGV[2])
return {'beaten'}
