-- Store what the caller said in one turn, once per turn number.
-- KEYS  call thread journal owed active leases rings
-- ARGV  turn#           from 1
--       entry           thread entry, JSON
--       owed_ms#
--       after_loss?     moves where turns before were lost: the sender knows that they were heard
--       by_human        handling of a call that a human has, JSON
--       unclear_most#?  so many turns in a row may pass that are not understood; nil: this one was
--       unclear_reason  why a human is wanted when they have, JSON
--       unclear_alert   and the alert for it, JSON
--       reason?         why a human is wanted now, JSON
--       alert?          and the alert for it, JSON
--       thread_most#    entries from which on a human is wanted; at twice as many it is full
--       limit_reason    why, JSON
--       limit_alert     and the alert for it, JSON
--       danger?         the words speak of it, before anybody has understood them
-- Says  ok, `wake` (nobody works on the call and no message for it is on its way yet) or `waits` (one
--       is), `alerted`, `full` (it counts as heard, and what was said is not kept), `urgency` as JSON,
--       `hurried`, `phrases` (of people wait for the caller)
--       | again | ahead, `heard` (turns) | unknown | ended
local call = open_call('heard', 'answered', 'assigned_worker', 'handling', 'unclear', 'urgency',
  'hurry', 'sayings')
local heard, answered = tonumber(call.heard), tonumber(call.answered)
-- Before the table: a repeated webhook is recognised even when the call has ended meanwhile.
if heard and a.turn <= heard then
  vouch()
  return say('again')
end
if call.refusal then
  return say(call.refusal)
end
local lost = a.turn - heard - 1
if lost > 0 then
  if not a.after_loss then
    return say('ahead', {heard = heard})
  end
  -- A failover took acknowledged turns with it. Nobody can answer them: whoever works on an older
  -- one has lost it too, and the call goes on from here.
  a.moves, answered = a.after_loss, a.turn - 1
  call.to, call.assigned_worker = open_call().to, 'null'
  redis.call('HINCRBY', key.call, 'lost', lost)
  redis.call('HSET', key.call, 'answered', answered, 'assigned_worker', 'null', 'attempts', 0,
    'draft', 'null')
  redis.call('HINCRBY', key.call, 'fence', 1)
  redis.call('ZREM', key.leases, a.call_sid)
  journal('lost', 'turn', a.turn - 1, 'count', lost)
end
local entries = redis.call('LLEN', key.thread)
local full = entries >= 2 * a.thread_most
if not full then
  redis.call('RPUSH', key.thread, stamped(a.entry))
end
redis.call('HSET', key.call, 'call_state', call.to, 'heard', a.turn, 'updated_at', now)
if a.danger then
  call.hurry = a.turn
  redis.call('HSET', key.call, 'hurry', a.turn)
end
redis.call('ZADD', key.active, now, a.call_sid)
journal('heard', 'turn', a.turn)

local reason, alert = a.reason, a.alert
if not a.unclear_most then
  redis.call('HSET', key.call, 'unclear', 0)
elseif redis.call('HINCRBY', key.call, 'unclear', 1) >= a.unclear_most and not reason then
  reason, alert = a.unclear_reason, a.unclear_alert
end
local alerted = false
if reason then
  redis.call('HSET', key.call, 'needs_human', reason)
  alerted = alarm(alert)
end
-- Only where nobody is being rung: the limit is no better reason than one that stands.
if entries + 1 >= a.thread_most and alarm(a.limit_alert) then
  redis.call('HSET', key.call, 'needs_human', a.limit_reason)
  alerted = true
end

local wake, waits = false, false
if call.handling == a.by_human then
  -- The human on the line has heard it as well.
  redis.call('HSET', key.call, 'answered', a.turn)
elseif call.assigned_worker == 'null' then
  -- Owed already: that turn's own message, or its deadline, brings a worker to this one too.
  waits = lost == 0 and heard > answered
  wake = not waits
end
if wake then
  redis.call('HSET', key.call, 'owed_since', now)
  redis.call('ZADD', key.owed, now + a.owed_ms, a.call_sid)
end
return say('ok', {wake = wake, waits = waits, alerted = alerted, full = full, urgency = call.urgency,
  hurried = is_hurried(call.hurry, answered), phrases = call.sayings and call.sayings ~= '[]'})
