-- Phrases that somebody was given to say are being said, or were heard.
-- KEYS  1 call
-- ARGV  1 the ids, with spaces around each  2 in how many ms they will have been said; '' when they
--       were heard  3 now_ms or ''
-- Says  noted | nothing (they are known to have been heard) | ended (its record is closed) | unknown
local outcome, sayings = unpack(redis.call('HMGET', KEYS[1], 'outcome', 'sayings'))
if not outcome then
  return {'unknown'}
end
if outcome ~= 'null' then
  return {'ended'}
end
local now = clock(ARGV[3])
local kept, changed = {}, false
for _, one in ipairs(cjson.decode(sayings or '[]')) do
  if not string.find(ARGV[1], ' ' .. one.id .. ' ', 1, true) then
    kept[#kept + 1] = saying_as_json(one)
  else
    changed = true
    if ARGV[2] ~= '' then
      one['until'] = now + ARGV[2]
      kept[#kept + 1] = saying_as_json(one)
    end
  end
end
if not changed then
  return {'nothing'}
end
redis.call('HSET', KEYS[1], 'sayings', '[' .. table.concat(kept, ',') .. ']', 'updated_at', now)
return {'noted'}
