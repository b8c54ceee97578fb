-- A person ends a call: what became of it is kept, and then it is completed. This stands before
-- finish.lua and is one script with it; its keys and first arguments are those of finish.lua.
-- ARGV  the last five: who, seen, request, updated_at of the record that they have judged or '' when
--       they are sure, now_ms or ''
-- Says  what finish.lua says | again | told, who, when (somebody was first) | stale (the record has
--       changed since it was judged)
local by, seen, request = ARGV[#ARGV - 4], ARGV[#ARGV - 3], ARGV[#ARGV - 2]
if done_before(KEYS[1], KEYS[3], request) then
  return {'again'}
end
local stands, updated = unpack(redis.call('HMGET', KEYS[1], 'call_state', 'updated_at'))
if stands and not move(ARGV[1], stands).refuse then
  local first = overtaken(KEYS[1], 'call', seen)
  if first then
    return first
  end
  if ARGV[#ARGV - 1] ~= '' and ARGV[#ARGV - 1] ~= updated then
    return {'stale'}
  end
  local at = clock(ARGV[#ARGV])
  redis.call('HSET', KEYS[1], 'disposition', '{"what":' .. ARGV[3] .. ',"by":' .. cjson.encode(by)
    .. ',"at":' .. at .. '}')
  act(KEYS[1], 'call', by, at)
  journal(KEYS[3], at, 'disposed', 'reason', ARGV[4], 'by', by, 'request', request)
end
