-- Store what the caller said in one turn, once per turn number.
-- KEYS  1 call  2 thread  3 journal  4 owed  5 active  6 leases  7 rings
-- ARGV  1 moves  2 CallSid  3 turn, from 1  4 thread entry without its time
--       5 owed_ms  6 moves where turns before were lost (the sender knows that they were heard); ''
--       where the sender does not know that
--       7 handling of a call that a human has, as JSON
--       8 how many turns in a row may pass that are not understood; '' when this one was
--       9 why a human is wanted when they have, and 10 the alert for it; both JSON
--       11 why a human is wanted now, and 12 the alert for it; both JSON or ''
--       13 thread entries from which on a human is wanted; at twice as many it is full
--       14 why, and 15 the alert for it; both JSON
--       16 1 where the words speak of danger, before anybody has understood them; else 0
--       17 now_ms or ''
-- Says  heard, wake|waits|quiet, alerted|calm, room|full, urgency as JSON, 1 when it is hurried,
--       phrases|none (of people, that wait for the caller)
--       | repeated | ahead, turns heard | unknown | a refusal of the table
--       `wake`: nobody works on the call and no message for it is on its way yet; `waits`: one is.
--       `full`: it counts as heard, and what was said is not kept.
local state, heard, answered, worker, handling, unclear, urgency, hurry, sayings = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'heard', 'answered', 'assigned_worker', 'handling', 'unclear',
  'urgency', 'hurry', 'sayings'))
if not state then
  return {'unknown'}
end
local turn = tonumber(ARGV[3])
heard, answered = tonumber(heard), tonumber(answered)
-- Before the table: a repeated webhook is recognised even when the call has ended meanwhile.
if turn <= heard then
  vouch(KEYS[1])
  return {'repeated'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
local lost = turn - heard - 1
if lost > 0 and ARGV[6] == '' then
  return {'ahead', heard}
end
local now = clock(ARGV[17])
if lost > 0 then
  -- A failover took acknowledged turns with it. Nobody can answer them: whoever works on an older
  -- one has lost it too, and the call goes on from here.
  row, answered, worker = move(ARGV[6], state), turn - 1, 'null'
  redis.call('HINCRBY', KEYS[1], 'lost', lost)
  redis.call('HSET', KEYS[1], 'answered', answered, 'assigned_worker', 'null', 'attempts', 0,
    'draft', 'null')
  redis.call('HINCRBY', KEYS[1], 'fence', 1)
  redis.call('ZREM', KEYS[6], ARGV[2])
  journal(KEYS[3], now, 'lost', 'turn', turn - 1, 'count', lost)
end
local most, entries, room = tonumber(ARGV[13]), redis.call('LLEN', KEYS[2]), 'full'
if entries < 2 * most then
  redis.call('RPUSH', KEYS[2], stamped(ARGV[4], now))
  room = 'room'
end
redis.call('HSET', KEYS[1], 'call_state', '"' .. row.to .. '"', 'heard', turn, 'updated_at', now)
if ARGV[16] == '1' then
  hurry = turn
  redis.call('HSET', KEYS[1], 'hurry', turn)
end
local hurried = is_hurried(hurry, answered)
local phrases = sayings and sayings ~= '[]' and 'phrases' or 'none'
redis.call('ZADD', KEYS[5], now, ARGV[2])
journal(KEYS[3], now, 'heard', 'turn', turn)

local reason, alert = ARGV[11], ARGV[12]
if ARGV[8] == '' then
  redis.call('HSET', KEYS[1], 'unclear', 0)
else
  unclear = redis.call('HINCRBY', KEYS[1], 'unclear', 1)
  if reason == '' and unclear >= tonumber(ARGV[8]) then
    reason, alert = ARGV[9], ARGV[10]
  end
end
local alerted = 'calm'
if reason ~= '' then
  redis.call('HSET', KEYS[1], 'needs_human', reason)
  if alarm(now, ARGV[2], KEYS[1], KEYS[3], KEYS[7], alert) then
    alerted = 'alerted'
  end
end
-- Only where nobody is being rung: the limit is no better reason than one that stands.
if entries + 1 >= most and alarm(now, ARGV[2], KEYS[1], KEYS[3], KEYS[7], ARGV[15]) then
  redis.call('HSET', KEYS[1], 'needs_human', ARGV[14])
  alerted = 'alerted'
end

if handling == ARGV[7] then
  -- The human on the line has heard it as well.
  redis.call('HSET', KEYS[1], 'answered', turn)
  return {'heard', 'quiet', alerted, room, urgency, hurried, phrases}
end
if worker ~= 'null' then
  return {'heard', 'quiet', alerted, room, urgency, hurried, phrases}
end
if lost == 0 and heard > answered then
  -- Owed already: that turn's own message, or its deadline, brings a worker to this one too.
  return {'heard', 'waits', alerted, room, urgency, hurried, phrases}
end
redis.call('HSET', KEYS[1], 'owed_since', now)
redis.call('ZADD', KEYS[4], now + ARGV[5], ARGV[2])
return {'heard', 'wake', alerted, room, urgency, hurried, phrases}
