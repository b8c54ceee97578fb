-- Give the phrases that wait to whoever speaks with the caller now. From then on each stands in the
-- thread; it waits on until it is known to have been heard (phrases_heard.lua).
-- KEYS  call thread journal
-- ARGV  teller?    who is to say them (a socket, a request), who may ask again; nil to have the
--                  caller's line fetched for those that nobody has
--       by_human   handling of a call that a human has, JSON
--       fetched?   this is the line that was fetched
--       fetch_ms#  for how long phrases are left to a line that was fetched
-- Says  ok, `phrases` as a JSON list, or `fetch` (there is one to be fetched) | idle (there is nothing
--       to say) | unknown | ended
-- Whoever had them before and did not get as far as to say them, or to the end of them, has lost
-- them to us: better said again than left out.
local call = open_call('sayings', 'handling', 'alert', 'answered')
if call.refusal then
  return say(call.refusal)
end
if not call.sayings or call.sayings == '[]' or with_human(call) then
  return say('idle')
end
local kept, given, changed, at = {}, {}, false, tonumber(now)

for _, one in ipairs(cjson.decode(call.sayings)) do
  local left_to_fetched = one.fetched and at < one.fetched + a.fetch_ms
  if one['until'] and one['until'] <= at then
    changed = true -- It was heard, and nobody has said so.
  elseif not a.teller then
    if not one.teller and not left_to_fetched then
      one.fetched, changed = at, true
    end
    kept[#kept + 1] = phrase_as_json(one)
  elseif one.teller == a.teller and one['until'] then
    kept[#kept + 1] = phrase_as_json(one) -- They are saying it.
  elseif not one.teller and left_to_fetched and not a.fetched then
    kept[#kept + 1] = phrase_as_json(one)
  else
    if not one.teller then
      redis.call('RPUSH', key.thread, '{"role":"human","turn":' .. call.answered .. ',"text":'
        .. cjson.encode(one.text) .. ',"by":' .. cjson.encode(one.by) .. ',"at":' .. now .. '}')
      journal('said', 'by', one.by)
    end
    one.teller, one['until'], changed = a.teller, nil, true
    kept[#kept + 1] = phrase_as_json(one)
    given[#given + 1] = phrase_as_json(one)
  end
end
if not changed then
  return say('idle')
end
redis.call('HSET', key.call, 'sayings', '[' .. table.concat(kept, ',') .. ']', 'updated_at', now)
if not a.teller then
  return say('ok', {fetch = true})
end
if #given == 0 then
  return say('idle')
end
return say('ok', {phrases = '[' .. table.concat(given, ',') .. ']'})
