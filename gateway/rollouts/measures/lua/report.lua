-- Takes a worker's measures of one rollout. Each field is the worker's own and is written whole: a report that comes
-- twice counts once.
-- KEYS: the rollout's hash.
-- ARGV: milliseconds that it is kept, and then for each measure the begin of its slice, the field and the value.
-- Slices up to the one in the field 'closed' have been put together, and what comes later for them is lost.
local closed = tonumber(redis.call('HGET', KEYS[1], 'closed') or '-1')
for place = 2, #ARGV, 3 do
  if tonumber(ARGV[place]) > closed then
    redis.call('HSET', KEYS[1], ARGV[place + 1], ARGV[place + 2])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
