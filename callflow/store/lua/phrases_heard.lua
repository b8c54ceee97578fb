-- Phrases that somebody was given to say are being said, or were heard.
-- KEYS  call
-- ARGV  left_ms#?  in how many ms they will have been said; nil when they were heard
--       ids*      of the phrases
-- Says  ok | idle (they are known to have been heard) | ended (its record is closed) | unknown
local outcome, sayings = unpack(redis.call('HMGET', key.call, 'outcome', 'sayings'))
if not outcome then
  return say('unknown')
end
if outcome ~= 'null' then
  return say('ended')
end
local ids, kept, changed = {}, {}, false
for _, id in ipairs(a.ids) do
  ids[id] = true
end
for _, one in ipairs(cjson.decode(sayings or '[]')) do
  if not ids[one.id] then
    kept[#kept + 1] = phrase_as_json(one)
  else
    changed = true
    if a.left_ms then
      one['until'] = now + a.left_ms
      kept[#kept + 1] = phrase_as_json(one)
    end
  end
end
if not changed then
  return say('idle')
end
redis.call('HSET', key.call, 'sayings', '[' .. table.concat(kept, ',') .. ']', 'updated_at', now)
return say('ok')
