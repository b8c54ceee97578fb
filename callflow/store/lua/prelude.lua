-- Stands before every script, behind two lines that redis/scripts.py makes from its header: `key` has
-- its KEYS by name, `a` its ARGV. In a header `name#` is a number, `name?` is nil where it is not given,
-- and `name*` is a list of all that is left. Every script also takes `now_ms?`, which only tests give,
-- and a script about a call `call_sid` and `moves`, the row of the table in call/state.py for what is
-- to happen to it.
-- Clients retry: each script may be run twice with the same arguments.

-- The server's time, ms since 1970, as a string: cjson and `..` would write an exponent.
local now = a.now_ms
if not now then
  local time = redis.call('TIME')
  now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- An answer: a word, then what else there is to know, by name. Nil and false are left out.
local function say(word, facts)
  local answer = {word}
  for name, value in pairs(facts or {}) do
    if value then
      answer[#answer + 1] = name
      answer[#answer + 1] = value == true and '1' or value
    end
  end
  return answer
end

-- The guarded opening of every script that changes a call: the fields of its record with these names,
-- `to`, its state afterwards, and `refusal`, why nothing may be done: `unknown`; what the table of
-- moves says (call/state.py: held, fenced, ended); or `fenced`, where the lease that asks is not the
-- one that the record knows. By the fence alone a holder is told from all before it; but a failover
-- that has lost a claim gives its fence a second time, so `lease` is a fence and, behind a space, the
-- claim that it came from. Without a claim: whoever reclaims.
local function open_call(...)
  local values = redis.call('HMGET', key.call, 'call_state', 'fence', 'claim', ...)
  local state, call = values[1], {fence = values[2], claim = values[3]}
  for i, name in ipairs({...}) do
    call[name] = values[i + 3]
  end
  if not state then
    call.refusal = 'unknown'
    return call
  end
  local kind, word = string.match(a.moves, state .. '([>!])(%S+)')
  if kind == '>' then
    call.to = '"' .. word .. '"'
  else
    call.refusal = word
  end
  if a.lease then
    local fence, claim = string.match(a.lease, '^(%d+) ?(.*)$')
    call.asking_fence = fence
    call.ours = fence == call.fence and (claim == '' or claim == call.claim)
    if not call.ours then
      call.refusal = call.refusal or 'fenced'
    end
  end
  return call
end

-- One line of the call's journal; `at` is ours because a stream's own clock cannot be set in tests.
-- A turn writes five to ten lines, and the longest call has 400 turns. What writes more goes in
-- circles, such as humans who are rung all night: then the newest lines are kept.
local function journal(event, ...)
  redis.call('XADD', key.journal, 'MAXLEN', '~', 10000, '*', 'event', event, 'at', now, ...)
end

-- Refuse a worker's write: it leaves a line in the journal and nothing else.
local function refuse_write(call, what, ...)
  local word = call.refusal or 'fenced'
  journal('refused', 'write', what, 'fence', call.asking_fence, 'reason', word, ...)
  return say(word)
end

-- Whether danger was heard in a turn that is not answered yet.
local function is_hurried(hurry, answered)
  return tonumber(hurry or 0) > tonumber(answered)
end

-- A JSON object comes without its time; put the time of storing in.
local function stamped(object)
  return string.sub(object, 1, -2) .. ',"at":' .. now .. '}'
end

-- Write what stands already. WAIT asks about the last write of its own connection: after this one it
-- tells of everything before, whoever wrote that.
local function vouch()
  redis.call('HSET', key.call, 'heard', redis.call('HGET', key.call, 'heard'))
end

-- Have a human rung, unless one is being rung or has the call already. `alert` is a fresh alert as
-- JSON, nil when nobody is wanted; its time is now, so the next sweep finds it whatever happens.
local function alarm(alert)
  if not alert or (redis.call('HGET', key.call, 'alert') or 'null') ~= 'null' then
    return false
  end
  redis.call('HSET', key.call, 'alert', alert, 'alert_due', now)
  redis.call('ZADD', key.rings, now, a.call_sid)
  journal('alerted', 'reason', cjson.decode(alert).reason)
  return true
end

-- The rest is for what staff do in a call: who acted on what, and whether it was done before.

-- Whether the request of this name was carried out: its answer was lost, and it is asked again. Nobody
-- asks again after more than these lines.
local function done_before()
  for _, entry in ipairs(redis.call('XREVRANGE', key.journal, '+', '-', 'COUNT', 100)) do
    local fields = entry[2]
    if fields[#fields - 1] == 'request' and fields[#fields] == a.request then
      vouch()
      return true
    end
  end
  return false
end

-- The field `acts`: {thing = {n = how often, by = who last, at = when}}; see call/edits.py.
local function acts_of_call()
  local stands = redis.call('HGET', key.call, 'acts')
  return stands and cjson.decode(stands) or {}
end

-- Who has acted on the thing since the person who asks has looked, as an answer; nil where nobody
-- has. `a.seen` is the count that they saw, nil for somebody who was shown none.
local function overtaken(thing)
  local last = acts_of_call()[thing]
  if not a.seen or not last or last.n <= a.seen then
    return nil
  end
  return say('stale', {by = last.by, at = string.format('%.0f', last.at)})
end

-- Count an act. Written by hand: cjson would write a time with an exponent.
local function count_act(thing)
  local acts, members = acts_of_call(), {}
  acts[thing] = {n = (acts[thing] and acts[thing].n or 0) + 1, by = a.by, at = tonumber(now)}
  for name, one in pairs(acts) do
    members[#members + 1] = string.format(
      '%s:{"n":%d,"by":%s,"at":%.0f}', cjson.encode(name), one.n, cjson.encode(one.by), one.at)
  end
  redis.call('HSET', key.call, 'acts', '{' .. table.concat(members, ',') .. '}', 'updated_at', now)
end

-- One more in a field that holds a JSON list, or nothing yet.
local function appended(list, one)
  if not list or list == '[]' then
    return '[' .. one .. ']'
  end
  return string.sub(list, 1, -2) .. ',' .. one .. ']'
end

-- Whether a human is on the line with the caller, and their name or ''.
local function with_human(call)
  if call.handling ~= a.by_human or not call.alert or call.alert == 'null' then
    return false
  end
  local stands = cjson.decode(call.alert)
  return stands.state == 'accepted', stands.who or ''
end

-- A phrase as it stands in the record. Written by hand, for its times.
local function phrase_as_json(one)
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
