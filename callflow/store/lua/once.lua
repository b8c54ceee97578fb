-- Let something be used once.
-- KEYS  1 what was used already  ARGV  1 for how long that is remembered, ms
-- Says  first | used
if redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then
  return {'first'}
end
return {'used'}
