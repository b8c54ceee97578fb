-- Open a call: the record exists from here on.
-- KEYS  call thread journal active rings
-- ARGV  opening?  thread entry of the opening words, JSON
--       alert?    a fresh alert, JSON: a human is to be rung from the start
--       fields*   pairs of field, JSON value
-- Says  ok | again (a second webhook for the same call; nothing is changed)
if redis.call('EXISTS', key.call) == 1 then
  return say('again')
end
redis.call('HSET', key.call, 'created_at', now, 'updated_at', now, unpack(a.fields))
if a.opening then
  redis.call('RPUSH', key.thread, stamped(a.opening))
end
redis.call('ZADD', key.active, now, a.call_sid)
journal('opened')
alarm(a.alert)
return say('ok')
