-- Note how much of a reply a relay socket has sent to be spoken.
-- KEYS  1 call
-- ARGV  1 turn  2 length in letters  3 now_ms or ''
-- Says  noted | ended (its record is closed) | unknown
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if not outcome then
  return {'unknown'}
end
if outcome ~= 'null' then
  return {'ended'}
end
redis.call('HSET', KEYS[1], 'sent',
  '{"turn":' .. ARGV[1] .. ',"length":' .. ARGV[2] .. ',"at":' .. clock(ARGV[3]) .. '}')
return {'noted'}
