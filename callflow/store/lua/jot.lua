-- A person writes a note about a call. It is kept with the record, and never spoken.
-- KEYS  1 call  2 journal
-- ARGV  1 moves  2 the note as JSON, without its time  3 who  4 request  5 how many a call may have
--       6 now_ms or ''
-- Says  done | again | full | unknown | a refusal of the table
local state, notes = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'notes'))
if not state then
  return {'unknown'}
end
if done_before(KEYS[1], KEYS[2], ARGV[4]) then
  return {'again'}
end
local row = move(ARGV[1], state)
if row.refuse then
  return {row.refuse}
end
if notes and #cjson.decode(notes) >= tonumber(ARGV[5]) then
  return {'full'}
end
local now = clock(ARGV[6])
redis.call('HSET', KEYS[1], 'notes', appended(notes, stamped(ARGV[2], now)), 'updated_at', now)
journal(KEYS[2], now, 'noted', 'by', ARGV[3], 'request', ARGV[4])
return {'done'}
