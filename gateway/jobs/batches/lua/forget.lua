-- Forgets batches whose time is over, all of which have ended long ago.
-- KEYS: sorted set of batches by their end, sorted set of batches by time, and as many batches as there are ids
-- ARGV: ids
for i, id in ipairs(ARGV) do
  redis.call('DEL', KEYS[i + 2])
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
return #ARGV
