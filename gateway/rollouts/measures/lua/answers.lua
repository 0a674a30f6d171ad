-- Keeps where a tenant's answers were counted, the newest ones.
-- KEYS: a hash of answer ids, and a list of them, the oldest first.
-- ARGV: the most that are kept, milliseconds that they are kept, how many kinds clients may tell of an answer, these
-- kinds, and then ids and values.
local first = 4 + tonumber(ARGV[3])
for place = first, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[1], ARGV[place], ARGV[place + 1]) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[place])
  end
end
local over = redis.call('LLEN', KEYS[2]) - tonumber(ARGV[1])
for _ = 1, over do
  local id = redis.call('LPOP', KEYS[2])
  redis.call('HDEL', KEYS[1], id)
  for place = 4, first - 1 do
    redis.call('HDEL', KEYS[1], id .. ' ' .. ARGV[place])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
