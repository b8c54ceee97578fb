-- Read what the parent processes of workers have said of themselves, and what time it is.
-- KEYS  reports  what each has said: hash by node
-- ARGV  node?   the one node that is asked for
-- Says  ok, `now`, `said` {JSON …}
if not a.node then
  return say('ok', {now = now, said = redis.call('HVALS', key.reports)})
end
return say('ok', {now = now, said = {redis.call('HGET', key.reports, a.node) or nil}})
