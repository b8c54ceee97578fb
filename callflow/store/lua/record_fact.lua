-- A person records a fact about a call, or takes one back.
-- KEYS  call journal
-- ARGV  fact      its name
--       value?    JSON; nil to take it back
--       by
--       seen#?
--       request?  nil for one without a name
-- Says  ok | again (it stands so already, or this request was done before)
--       | stale, `by`, `at` (somebody was first) | unknown | ended
-- Facts that people record are words, numbers and flags: what cjson would spoil, an empty list, is
-- never among them.
local call = open_call('recorded')
if call.refusal ~= 'unknown' and a.request and done_before() then
  return say('again')
end
if call.refusal then
  return say(call.refusal)
end
local facts = call.recorded and cjson.decode(call.recorded) or {}
-- A flag that is recorded as `no` is taken back: it is as good as not recorded.
local value = a.value and cjson.decode(a.value) or nil
if facts[a.fact] == value then
  return say('again')
end
local first = overtaken('fact:' .. a.fact)
if first then
  return first
end
facts[a.fact] = value
redis.call('HSET', key.call, 'recorded', next(facts) and cjson.encode(facts) or '{}',
  'updated_at', now)
-- The value may tell who somebody is: it stands in the record, which expires sooner.
count_act('fact:' .. a.fact)
journal(value == nil and 'withdrawn' or 'recorded', 'fact', a.fact, 'by', a.by,
  'request', a.request or '')
return say('ok')
