-- A person records a fact about a call, or takes one back.
-- KEYS  1 call  2 journal
-- ARGV  1 moves  2 name  3 value as JSON, or '' to take it back  4 who  5 seen  6 request, or '' for
--       one without a name  7 now_ms or ''
-- Says  noted | unchanged (it stands so already) | again | told, who, when (somebody was first)
--       | unknown | a refusal of the table
-- Facts that people record are words, numbers and flags: what cjson would spoil, an empty list, is
-- never among them.
local state, recorded = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'recorded'))
if not state then
  return {'unknown'}
end
if ARGV[6] ~= '' and done_before(KEYS[1], KEYS[2], ARGV[6]) then
  return {'again'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
local facts = recorded and cjson.decode(recorded) or {}
local value = ARGV[3] ~= '' and cjson.decode(ARGV[3]) or nil
if facts[ARGV[2]] == value then
  return {'unchanged'}
end
local first = overtaken(KEYS[1], 'fact:' .. ARGV[2], ARGV[5])
if first then
  return first
end
facts[ARGV[2]] = value
local now = clock(ARGV[7])
redis.call('HSET', KEYS[1], 'recorded', next(facts) and cjson.encode(facts) or '{}',
  'updated_at', now)
-- The value may tell who somebody is: it stands in the record, which expires sooner.
act(KEYS[1], 'fact:' .. ARGV[2], ARGV[4], now)
journal(KEYS[2], now, value == nil and 'withdrawn' or 'recorded', 'fact', ARGV[2], 'by', ARGV[4],
  'request', ARGV[6])
return {'noted'}
