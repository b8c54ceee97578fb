-- Note how much of a reply a relay socket has sent to be spoken, or how much of it was heard.
-- KEYS  1 call
-- ARGV  1 sent or played  2 turn  3 length in letters  4 how long it takes to say the rest, ms
--       5 how much of it was heard, or '' where the carrier tells nothing  6 now_ms or ''
-- Says  noted | late (of another turn, or of less than is known) | ended (its record is closed)
--       | unknown
local outcome, known = unpack(redis.call('HMGET', KEYS[1], 'outcome', 'sent'))
if not outcome then
  return {'unknown'}
end
if outcome ~= 'null' then
  return {'ended'}
end
local turn, heard = tonumber(ARGV[2]), tonumber(ARGV[5])
local sent = known and known ~= 'null' and cjson.decode(known) or {turn = -1}
local before = sent.turn == turn and tonumber(sent.played) or nil
if ARGV[1] == 'played' then
  if sent.turn ~= turn or heard <= (before or -1) then
    return {'late'}
  end
  sent.played = heard
else
  if heard then
    heard = math.max(heard, before or 0)
  end
  sent = {turn = turn, length = tonumber(ARGV[3]), at = tonumber(clock(ARGV[6])),
    left_ms = tonumber(ARGV[4]), played = heard or before}
end
-- Written by hand: cjson would write a time with an exponent.
redis.call('HSET', KEYS[1], 'sent', string.format(
  '{"turn":%d,"length":%d,"at":%.0f,"left_ms":%d,"played":%s}', sent.turn, sent.length, sent.at,
  sent.left_ms or 0, tonumber(sent.played) and string.format('%d', sent.played) or 'null'))
return {'noted'}
