-- Keep that somebody did something.
-- KEYS  stream call
-- ARGV  once_in_ms#?  for so long the same again is no news
--       most         lines, about
--       kept_ms#?    lifetime of the stream; nil: it lives as long as the call that it is about
--       what
--       by
--       address      from which
-- Says  ok | again
local life = a.kept_ms
if not life then
  local left = redis.call('PTTL', key.call)
  -- A call that goes on has no end yet, and one that is archived late is kept for longer: a month is
  -- the longest that any setting allows.
  life = left > 0 and left or 2592000000
end
redis.call('PEXPIRE', key.stream, life)
if a.once_in_ms then
  for _, line in ipairs(redis.call('XREVRANGE', key.stream, '+', '-', 'COUNT', 20)) do
    local said = {}
    for i = 1, #line[2], 2 do
      said[line[2][i]] = line[2][i + 1]
    end
    if said.what == a.what and said.by == a.by and now - said.at < a.once_in_ms then
      return say('again')
    end
  end
end
redis.call('XADD', key.stream, 'MAXLEN', '~', a.most, '*', 'at', now, 'what', a.what, 'by', a.by,
  'address', a.address)
redis.call('PEXPIRE', key.stream, life)
return say('ok')
