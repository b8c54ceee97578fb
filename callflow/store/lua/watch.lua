-- Look at the calls of one shard, without their conversations: what people watch.
-- KEYS  active ended
-- ARGV  most#      active calls at most
--       ended_ms#  those that ended so long ago are looked at too
--       base       what the names of all keys of this shard begin with
--       fields     names of the fields of the record that are asked for, with a space between
--       known*     pairs of CallSid, stamp: what whoever asks has seen already
-- Says  ok, `now`, `hidden`: how many active calls are left out, `calls` {CallSid … of all},
--       `changed` {CallSid, stamp, what is seen as a JSON object … of those whose stamp is another}
-- The keys of the calls are found here and cannot be named before; they carry the tag of the shard
-- as KEYS do, so all are on one server.
local BACK = 40 -- A caller who has said nothing in so many entries has long been silent.

-- Changes with all that happens to a call: each script sets `updated_at`, writes a line into the
-- journal, or is a beat.
local function stamp(sid)
  local updated, beat = unpack(redis.call(
    'HMGET', a.base .. 'call:' .. sid, 'updated_at', 'last_heartbeat'))
  if not updated then
    return nil
  end
  return updated .. ' ' .. (beat or '') .. ' ' .. redis.call('XLEN', a.base .. 'journal:' .. sid)
end

-- Of a thread: its last entry, the last words of the caller, and those that wait for a reply since.
local function tail(thread, owed)
  local kept, spoken, waits = {}, false, owed == ''
  for index = 1, BACK do
    local entry = redis.call('LINDEX', thread, -index)
    if not entry then
      break
    end
    local turn, text = string.match(entry, '^{"role":"caller","turn":(%d+),"text":"(.)')
    local words = turn and not spoken
      and (text ~= '"' or string.find(entry, ',"digits":"', 1, true)) and true
    if index == 1 or words or turn == owed then
      table.insert(kept, 1, entry)
    end
    spoken, waits = spoken or words, waits or turn == owed
    if spoken and waits then
      break
    end
  end
  return table.concat(kept, ',')
end

local names = {}
for name in string.gmatch(a.fields, '%S+') do
  names[#names + 1] = name
end

local function seen(sid)
  local values = redis.call('HMGET', a.base .. 'call:' .. sid, 'heard', 'answered', unpack(names))
  local members = {'{"call_sid":"' .. sid .. '"'}
  for i, name in ipairs(names) do
    local value = values[i + 2]
    if value then
      members[#members + 1] = '"' .. name .. '":' .. value
    end
  end
  local heard, answered, owed = tonumber(values[1]), tonumber(values[2]), ''
  if heard and answered and heard > answered then
    owed = string.format('%d', answered + 1)
  end
  members[#members + 1] = '"conversation_thread":[' .. tail(a.base .. 'thread:' .. sid, owed) .. ']'
  members[#members + 1] = '"journal_length":' .. redis.call('XLEN', a.base .. 'journal:' .. sid)
  return table.concat(members, ',') .. '}'
end

local known = {}
for i = 1, #a.known, 2 do
  known[a.known[i]] = a.known[i + 1]
end
local active = redis.call('ZRANGE', key.active, 0, a.most - 1)
local ended = redis.call('ZRANGE', key.ended, now - a.ended_ms, '+inf', 'BYSCORE')
local all, changed = {}, {}
for _, sids in ipairs({active, ended}) do
  for _, sid in ipairs(sids) do
    local here = stamp(sid)
    if here then
      all[#all + 1] = sid
      if known[sid] ~= here then
        changed[#changed + 1] = sid
        changed[#changed + 1] = here
        changed[#changed + 1] = seen(sid)
      end
    end
  end
end
return say('ok', {now = now, hidden = redis.call('ZCARD', key.active) - #active, calls = all,
  changed = changed})
