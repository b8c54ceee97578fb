-- A person has something said to the caller: it waits in the record for whoever speaks with them.
-- KEYS  1 call  2 thread  3 journal
-- ARGV  1 moves  2 CallSid  3 the saying as JSON, without its time  4 who  5 seen  6 request
--       7 how many may wait  8 handling of a call that a human has, as JSON
--       9 entries at which the thread is full  10 channel  11 now_ms or ''
-- Says  done | again | told, who, when (somebody was first) | with_human, who | waiting (too many)
--       | full | unknown | a refusal of the table
local state, sayings, handling, alert = unpack(redis.call(
  'HMGET', KEYS[1], 'call_state', 'sayings', 'handling', 'alert'))
if not state then
  return {'unknown'}
end
if done_before(KEYS[1], KEYS[3], ARGV[6]) then
  return {'again'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
local human, who = with_human(handling, alert, ARGV[8])
if human then
  return {'with_human', who}
end
local first = overtaken(KEYS[1], 'say', ARGV[5])
if first then
  return first
end
if sayings and #cjson.decode(sayings) >= tonumber(ARGV[7]) then
  return {'waiting'}
end
if redis.call('LLEN', KEYS[2]) >= tonumber(ARGV[9]) then
  return {'full'}
end
local now = clock(ARGV[11])
redis.call('HSET', KEYS[1], 'sayings', appended(sayings, stamped(ARGV[3], now)))
act(KEYS[1], 'say', ARGV[4], now)
journal(KEYS[3], now, 'phrase', 'by', ARGV[4], 'request', ARGV[6])
redis.call('PUBLISH', ARGV[10], ARGV[2])
return {'done'}
