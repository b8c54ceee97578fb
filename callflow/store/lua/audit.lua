-- Keep that somebody did something.
-- KEYS  1 a stream  2 the call that it is about: the stream lives as long; or no key
-- ARGV  1 for so long the same again is no news, ms; or ''  2 most lines, about
--       3 lifetime of the stream, ms; '' with a call  4 what  5 by whom  6 from which address
--       7 now_ms or ''
-- Says  noted | known
local now = clock(ARGV[7])
local life = ARGV[3]
if KEYS[2] then
  local left = redis.call('PTTL', KEYS[2])
  -- A call that goes on has no end yet, and one that is archived late is kept for longer: a month is
  -- the longest that any setting allows.
  life = left > 0 and left or 2592000000
end
redis.call('PEXPIRE', KEYS[1], life)
if ARGV[1] ~= '' then
  for _, line in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 20)) do
    local said = {}
    for i = 1, #line[2], 2 do
      said[line[2][i]] = line[2][i + 1]
    end
    if said.what == ARGV[4] and said.by == ARGV[5] and now - said.at < tonumber(ARGV[1]) then
      return {'known'}
    end
  end
end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'at', now, 'what', ARGV[4], 'by', ARGV[5],
  'address', ARGV[6])
redis.call('PEXPIRE', KEYS[1], life)
return {'noted'}
