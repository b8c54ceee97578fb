-- The agent has the call again: the human has left the line, or none has come.
-- KEYS  call journal rings
-- ARGV  by_agent  handling by the agent, JSON
--       reason
--       over?     the ringing is over as well; nil when the ladder goes on
--       channel
-- Says  ok | again (the agent had it) | unknown | ended
local WHOLE = 1000000 -- More letters than any reply has.
local call = open_call('handling', 'answered', 'sent')
if call.refusal then
  return say(call.refusal)
end
if call.handling == a.by_agent then
  return say('again')
end
redis.call('HSET', key.call, 'call_state', call.to, 'handling', a.by_agent, 'updated_at', now)
if a.over then
  redis.call('HSET', key.call, 'alert', 'null', 'alert_due', 'null')
  redis.call('ZREM', key.rings, a.call_sid)
  -- The human has spoken since: what they cut off of our last reply is not said any more.
  local tells = call.sent and call.sent ~= 'null' and tonumber(cjson.decode(call.sent).played)
  redis.call('HSET', key.call, 'sent', string.format(
    '{"turn":%d,"length":%d,"at":%.0f,"left_ms":0,"played":%s}', call.answered, WHOLE, now,
    tells and string.format('%d', WHOLE) or 'null'))
end
journal('resumed', 'reason', a.reason)
redis.call('PUBLISH', a.channel, a.call_sid)
return say('ok')
