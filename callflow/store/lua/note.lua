-- Write fields of a turn that is being worked on: what was understood, what has been said so far.
-- KEYS  1 call  2 journal  3 rings
-- ARGV  1 moves  2 CallSid  3 fence and claim  4 what is noted (drafted, understood)  5 channel or ''
--       6 what is published behind the CallSid  7 a fresh alert as JSON: a human is wanted; or ''
--       8 …  pairs of field, JSON value  last now_ms or ''
-- Says  noted, with alerted | calm | fenced | unknown | a refusal of the table
local state, fence, claim = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'fence', 'claim'))
if not state then
  return {'unknown'}
end
local row = move(ARGV[1], state)
local now = clock(ARGV[#ARGV])
local ours, number = held(ARGV[3], fence, claim)
if row.refuse or not ours then
  local word = row.refuse or 'fenced'
  journal(KEYS[2], now, 'refused', 'write', ARGV[4], 'fence', number, 'reason', word)
  return {word}
end
-- A draft only grows: a shorter one of the same turn is a copy that the network delivers late, of a
-- write that its worker has long repeated. It must not take back what the caller has heard.
local function late(field, value)
  local known = field == 'draft' and redis.call('HGET', KEYS[1], 'draft') or 'null'
  if known == 'null' then
    return false
  end
  local old, new = cjson.decode(known), cjson.decode(value)
  return old.turn == new.turn and #new.text < #old.text
end
local function given(field)
  for i = 8, #ARGV - 2, 2 do
    if ARGV[i] == field then
      return ARGV[i + 1]
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
  changed = changed or redis.call('HGET', KEYS[1], field) ~= value
end
for i = 8, #ARGV - 2, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if not late(field, value) then
    local set = field == 'urgency' and redis.call('HGET', KEYS[1], 'urgency_set')
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
  redis.call('HSET', KEYS[1], 'updated_at', now, unpack(fields))
  journal(KEYS[2], now, ARGV[4], 'fence', fence)
  if ARGV[5] ~= '' then
    redis.call('PUBLISH', ARGV[5], ARGV[2] .. ARGV[6])
  end
end
return {'noted', alarm(now, ARGV[2], KEYS[1], KEYS[2], KEYS[3], ARGV[7]) and 'alerted' or 'calm'}
