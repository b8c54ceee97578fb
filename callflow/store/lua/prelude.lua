-- Stands before every script: the server's clock, the table of moves, the journal.

-- Milliseconds since 1970 as a string without exponent; `given` is empty except in tests.
local function clock(given)
  if given ~= '' then
    return given
  end
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- The row for a record's state out of a table of moves: {to = …} or {refuse = …}.
-- `state` is stored as a JSON string, so its quotes come off first.
local function move(moves, state)
  return cjson.decode(moves)[string.sub(state, 2, -2)]
end

-- One line of the call's journal; `at` is ours because a stream's own clock cannot be set in tests.
local function journal(key, at, event, ...)
  redis.call('XADD', key, '*', 'event', event, 'at', at, ...)
end

-- A thread entry comes as a JSON object without its time; put the time of storing in.
local function stamped(entry, at)
  return string.sub(entry, 1, -2) .. ',"at":' .. at .. '}'
end
