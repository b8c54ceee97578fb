-- Keep how much of a reply a relay socket has sent to be spoken, or how much of it was heard.
-- KEYS  call holders
-- ARGV  turn#
--       length#?  in letters, of what was sent; nil where the carrier tells what was heard
--       left_ms#?  how long it takes to say the rest
--       played#?  how much of it was heard, in letters; nil where the carrier tells nothing
--       holder?   the socket that says so
-- Says  ok | stale (of another turn, or of less than is known) | fenced (another socket holds the
--       line since) | ended (its record is closed) | unknown
local outcome, known = unpack(redis.call('HMGET', key.call, 'outcome', 'sent'))
if not outcome then
  return say('unknown')
end
if outcome ~= 'null' then
  return say('ended')
end
local held_by = a.holder and redis.call('HGET', key.holders, a.call_sid)
if held_by and held_by ~= a.holder then
  return say('fenced')
end
local sent = known and known ~= 'null' and cjson.decode(known) or {turn = -1}
local before = sent.turn == a.turn and tonumber(sent.played) or nil
if a.length then
  local played = a.played and math.max(a.played, before or 0) or before
  sent = {turn = a.turn, length = a.length, at = tonumber(now), left_ms = a.left_ms, played = played}
elseif sent.turn ~= a.turn or a.played <= (before or -1) then
  return say('stale')
else
  sent.played = a.played
end
-- Written by hand: cjson would write a time with an exponent.
redis.call('HSET', key.call, 'sent', string.format(
  '{"turn":%d,"length":%d,"at":%.0f,"left_ms":%d,"played":%s}', sent.turn, sent.length, sent.at,
  sent.left_ms or 0, tonumber(sent.played) and string.format('%d', sent.played) or 'null'))
return say('ok')
