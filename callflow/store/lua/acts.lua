-- Stands before the scripts of what people do: who acted on what, and whether it was done before.

-- The field `acts`: {thing = {n = how often, by = who last, at = when}}; see call/acts.py.
local function acts_of(call)
  local stands = redis.call('HGET', call, 'acts')
  return stands and cjson.decode(stands) or {}
end

-- Whether the request of this name was carried out: its answer was lost, and it is asked again. Nobody
-- asks again after more than these lines.
local function done_before(call, line, request)
  for _, entry in ipairs(redis.call('XREVRANGE', line, '+', '-', 'COUNT', 100)) do
    local fields = entry[2]
    if fields[#fields - 1] == 'request' and fields[#fields] == request then
      vouch(call)
      return true
    end
  end
  return false
end

-- Who has acted on the thing since the person who asks has looked, as an answer; nil where nobody
-- has. `seen` is the count that they saw, '' for somebody who was shown none.
local function overtaken(call, thing, seen)
  local last = acts_of(call)[thing]
  if seen == '' or not last or last.n <= tonumber(seen) then
    return nil
  end
  return {'told', last.by, string.format('%.0f', last.at)}
end

-- Count an act. Written by hand: cjson would write a time with an exponent.
local function act(call, thing, by, now)
  local acts, members = acts_of(call), {}
  acts[thing] = {n = (acts[thing] and acts[thing].n or 0) + 1, by = by, at = tonumber(now)}
  for name, one in pairs(acts) do
    members[#members + 1] = string.format(
      '%s:{"n":%d,"by":%s,"at":%.0f}', cjson.encode(name), one.n, cjson.encode(one.by), one.at)
  end
  redis.call('HSET', call, 'acts', '{' .. table.concat(members, ',') .. '}', 'updated_at', now)
end

-- One more in a field that holds a JSON list, or nothing yet.
local function appended(list, one)
  if not list or list == '[]' then
    return '[' .. one .. ']'
  end
  return string.sub(list, 1, -2) .. ',' .. one .. ']'
end

-- Whether a human is on the line with the caller, and their name or ''. `human` is the handling of
-- such a call, as JSON.
local function with_human(handling, alert, human)
  if handling ~= human or not alert or alert == 'null' then
    return false
  end
  local stands = cjson.decode(alert)
  return stands.state == 'accepted', stands.who or ''
end

-- A saying as it stands in the record. Written by hand, for its times.
local function saying_as_json(one)
  local text = string.format('{"id":%s,"by":%s,"at":%.0f,"text":%s', cjson.encode(one.id),
    cjson.encode(one.by), one.at, cjson.encode(one.text))
  if one.teller then
    text = text .. ',"teller":' .. cjson.encode(one.teller)
  end
  for _, name in ipairs({'until', 'fetched'}) do
    if one[name] then
      text = text .. string.format(',"%s":%.0f', name, one[name])
    end
  end
  return text .. '}'
end
