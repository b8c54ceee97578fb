-- Write fields of a turn that is being worked on: what was understood, what has been said so far.
-- KEYS  call journal rings
-- ARGV  lease
--       event       drafted or understood, for the journal
--       channel?    where it is published
--       published?  what is published behind the CallSid
--       alert?      a fresh alert, JSON: a human is wanted
--       fields*     pairs of field, JSON value
-- Says  ok, `alerted` | fenced | unknown | ended
local call = open_call()
if call.refusal == 'unknown' then
  return say('unknown')
end
if call.refusal then
  return refuse_write(call, a.event)
end
-- A draft only grows: a shorter one of the same turn is a copy that the network delivers late, of a
-- write that its worker has long repeated. It must not take back what the caller has heard.
local function is_late(field, value)
  local known = field == 'draft' and redis.call('HGET', key.call, 'draft') or 'null'
  if known == 'null' then
    return false
  end
  local old, new = cjson.decode(known), cjson.decode(value)
  return old.turn == new.turn and #new.text < #old.text
end
local function given(field)
  for i = 1, #a.fields, 2 do
    if a.fields[i] == field then
      return a.fields[i + 1]
    end
  end
end
-- What the urgency is where a person has set another than is heard: theirs stands, until something
-- is heard that is graver than all that they knew of, or that they did not know of and that speaks
-- for more than theirs. As letters "P1" comes before "P2".
-- Also the person's word as it stands from now on: what applies no more is news when heard again.
local function over_theirs(stands, value)
  local set = cjson.decode(stands)
  local urgency, known, still = set.to, set.known or {}, {}
  local heard = value ~= 'null' and cjson.decode(value) or nil
  if heard and heard < urgency and (set.over == cjson.null or heard < set.over) then
    urgency = heard
  end
  for name, speaks_for in pairs(cjson.decode(given('grounds') or '{}')) do
    still[name] = known[name]
    if speaks_for < urgency and not (known[name] and known[name] <= speaks_for) then
      urgency = speaks_for
    end
  end
  local kept = string.gsub(cjson.encode(still), '%%', '%%%%')
  return cjson.encode(urgency), (string.gsub(stands, '"known":%b{}}$', '"known":' .. kept .. '}'))
end
local fields, changed = {}, false
local function put(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
  changed = changed or redis.call('HGET', key.call, field) ~= value
end
for i = 1, #a.fields, 2 do
  local field, value = a.fields[i], a.fields[i + 1]
  if not is_late(field, value) then
    local set = field == 'urgency' and redis.call('HGET', key.call, 'urgency_set')
    if set then
      put('urgency_heard', value)
      local theirs
      value, theirs = over_theirs(set, value)
      put('urgency_set', theirs)
    end
    put(field, value)
  end
end
-- Unchanged means that this is the second run of a write whose answer was lost.
if changed then
  redis.call('HSET', key.call, 'updated_at', now, unpack(fields))
  journal(a.event, 'fence', call.fence)
  if a.channel then
    redis.call('PUBLISH', a.channel, a.call_sid .. a.published)
  end
end
return say('ok', {alerted = alarm(a.alert)})
