-- A person has something said to the caller: it waits in the record for whoever speaks with them.
-- KEYS  call thread journal
-- ARGV  phrase        JSON
--       by
--       seen#?
--       request
--       most_waiting#  how many may wait
--       by_human      handling of a call that a human has, JSON
--       thread_full#  entries at which the thread is full
--       channel
-- Says  ok | again | stale, `by`, `at` (somebody was first) | with_human, `who`
--       | full, with `waiting` where it is not the thread but too many phrases wait
--       | unknown | ended
local call = open_call('sayings', 'handling', 'alert')
if call.refusal ~= 'unknown' and done_before() then
  return say('again')
end
if call.refusal then
  return say(call.refusal)
end
local human, who = with_human(call)
if human then
  return say('with_human', {who = who})
end
local first = overtaken('say')
if first then
  return first
end
if call.sayings and #cjson.decode(call.sayings) >= a.most_waiting then
  return say('full', {waiting = true})
end
if redis.call('LLEN', key.thread) >= a.thread_full then
  return say('full')
end
redis.call('HSET', key.call, 'sayings', appended(call.sayings, stamped(a.phrase)))
count_act('say')
journal('phrase', 'by', a.by, 'request', a.request)
redis.call('PUBLISH', a.channel, a.call_sid)
return say('ok')
