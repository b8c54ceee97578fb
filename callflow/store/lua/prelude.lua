-- Stands before every script: the server's clock, the table of moves, the journal.

-- Milliseconds since 1970 as a string without exponent; `given` is empty except in tests.
local function clock(given)
  if given ~= '' then
    return given
  end
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- What a row of the table of moves (see call/state.py) says about a record's state, as stored:
-- {to = …} or {refuse = …}.
local function move(moves, state)
  local kind, word = string.match(moves, state .. '([>!])(%S+)')
  if kind == '>' then
    return {to = word}
  end
  return {refuse = word}
end

-- Whether a lease is the one that the record knows, and its fence. `token` is that fence and, behind
-- a space, the claim it came from. By the fence alone the holder is told from all before it; but a
-- failover that has lost a claim gives its fence a second time. Without a claim: whoever reclaims.
local function held(token, fence, claim)
  local number, named = string.match(token, '^(%d+) ?(.*)$')
  return number == fence and (named == '' or named == claim), number
end

-- One line of the call's journal; `at` is ours because a stream's own clock cannot be set in tests.
-- A turn writes five to ten lines, and the longest call has 400 turns. What writes more goes in
-- circles, such as humans who are rung all night: then the newest lines are kept.
local function journal(key, at, event, ...)
  redis.call('XADD', key, 'MAXLEN', '~', 10000, '*', 'event', event, 'at', at, ...)
end

-- '1' when danger was heard in a turn that is not answered yet, else '0'.
local function is_hurried(hurry, answered)
  return tonumber(hurry or 0) > tonumber(answered) and '1' or '0'
end

-- A thread entry comes as a JSON object without its time; put the time of storing in.
local function stamped(entry, at)
  return string.sub(entry, 1, -2) .. ',"at":' .. at .. '}'
end

-- Write what stands already. WAIT asks about the last write of its own connection: after this one it
-- tells of everything before, whoever wrote that.
local function vouch(call)
  redis.call('HSET', call, 'heard', redis.call('HGET', call, 'heard'))
end

-- Have a human rung, unless one is being rung or has the call already. `alert` is a fresh alert as
-- JSON, '' when nobody is wanted; its time is now, so the next sweep finds it whatever happens.
local function alarm(now, sid, call, line, rings, alert)
  if alert == '' or (redis.call('HGET', call, 'alert') or 'null') ~= 'null' then
    return false
  end
  redis.call('HSET', call, 'alert', alert, 'alert_due', now)
  redis.call('ZADD', rings, now, sid)
  journal(line, now, 'alerted', 'reason', cjson.decode(alert).reason)
  return true
end
