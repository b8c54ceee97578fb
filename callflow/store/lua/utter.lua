-- Give the phrases that wait to whoever speaks with the caller now. From then on each stands in the
-- thread; it waits on until it is known to have been heard (uttered.lua).
-- KEYS  1 call  2 thread  3 journal
-- ARGV  1 moves  2 who is to say them (a socket, a request), who may ask again; ''
--       to have the caller's line fetched for those that nobody has  3 handling of a call that a
--       human has, as JSON  4 1 for the line that was fetched, else 0  5 for how long, ms, phrases
--       are left to a line that was fetched  6 now_ms or ''
-- Says  say, the sayings as a JSON list | fetch (there is one to be fetched) | nothing | unknown
--       | a refusal of the table
-- Whoever had them before and did not get as far as to say them, or to the end of them, has lost
-- them to us: better said again than left out.
local state, sayings, handling, alert, answered = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'sayings', 'handling', 'alert', 'answered'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if not sayings or sayings == '[]' or with_human(handling, alert, ARGV[3]) then
  return {'nothing'}
end
local now = clock(ARGV[6])
local fetch, kept, given, changed = ARGV[2] == '', {}, {}, false

for _, one in ipairs(cjson.decode(sayings)) do
  local left_to_fetched = one.fetched and tonumber(now) < one.fetched + ARGV[5]
  if one['until'] and one['until'] <= tonumber(now) then
    changed = true -- It was heard, and nobody has said so.
  elseif fetch then
    if not one.teller and not left_to_fetched then
      one.fetched, changed = tonumber(now), true
    end
    kept[#kept + 1] = saying_as_json(one)
  elseif one.teller == ARGV[2] and one['until'] then
    kept[#kept + 1] = saying_as_json(one) -- They are saying it.
  elseif not one.teller and left_to_fetched and ARGV[4] ~= '1' then
    kept[#kept + 1] = saying_as_json(one)
  else
    if not one.teller then
      redis.call('RPUSH', KEYS[2], '{"role":"human","turn":' .. answered .. ',"text":'
        .. cjson.encode(one.text) .. ',"by":' .. cjson.encode(one.by) .. ',"at":' .. now .. '}')
      journal(KEYS[3], now, 'said', 'by', one.by)
    end
    one.teller, one['until'], changed = ARGV[2], nil, true
    kept[#kept + 1] = saying_as_json(one)
    given[#given + 1] = saying_as_json(one)
  end
end
if not changed then
  return {'nothing'}
end
redis.call('HSET', KEYS[1], 'sayings', '[' .. table.concat(kept, ',') .. ']', 'updated_at', now)
if fetch then
  return {'fetch'}
end
if #given == 0 then
  return {'nothing'}
end
return {'say', '[' .. table.concat(given, ',') .. ']'}
