-- Read how far the replies of a call have come, behind a write: when replicas have that, they have
-- all that is read here.
-- KEYS  call
-- Says  ok, `answered`, `draft` as JSON | unknown
local answered, draft = unpack(redis.call('HMGET', key.call, 'answered', 'draft'))
if not answered then
  return say('unknown')
end
vouch()
return say('ok', {answered = answered, draft = draft})
