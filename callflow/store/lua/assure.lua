-- Read how far the replies of a call have come, behind a write: when replicas have that, they have
-- all that is read here.
-- KEYS  1 call
-- Says  known, answered, draft as JSON | unknown
local answered, draft = unpack(redis.call('HMGET', KEYS[1], 'answered', 'draft'))
if not answered then
  return {'unknown'}
end
vouch(KEYS[1])
return {'known', answered, draft}
