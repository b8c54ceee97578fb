-- Let one name have something, whoever asks first. Asked again it has it: its first answer may have
-- been lost.
-- KEYS  claim
-- ARGV  name
--       ttl_ms#  for how long it is remembered
-- Says  ok | held (another one has it)
redis.call('SET', key.claim, a.name, 'NX', 'PX', a.ttl_ms)
return say(redis.call('GET', key.claim) == a.name and 'ok' or 'held')
