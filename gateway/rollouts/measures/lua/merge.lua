-- Puts one field in the place of several; nothing, if one of them is gone or has changed.
-- KEYS: the rollout's hash. ARGV: the new field and its value, and then the fields and the values they must have.
for place = 3, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[place]) ~= ARGV[place + 1] then
    return 0
  end
end
for place = 3, #ARGV, 2 do
  redis.call('HDEL', KEYS[1], ARGV[place])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
