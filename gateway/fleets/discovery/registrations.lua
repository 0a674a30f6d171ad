-- Keeps what replicas say of themselves for as long as they repeat it.
-- KEYS: a sorted set of replicas by the time of their last word, and a hash of replica to EPOCH:RECORD.
-- ARGV: seconds that a word is good for, and then 'all' to get them, or 'put' or 'drop', the replica and its epoch (20
-- digits), its record, and the channel on which changes are announced. What a later epoch has put is neither replaced
-- nor dropped.
-- Returns all records, or 1, or 0 where a later epoch is there.
local now = redis.call('TIME')
local seconds = tonumber(now[1]) + tonumber(now[2]) / 1000000
local good_for = tonumber(ARGV[1])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.6f', seconds - good_for))
for _, replica in ipairs(old) do
  redis.call('ZREM', KEYS[1], replica)
  redis.call('HDEL', KEYS[2], replica)
end
if ARGV[2] == 'all' then
  local records = {}
  for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
    records[#records + 1] = string.sub(value, 22)
  end
  return records
end
local known = redis.call('HGET', KEYS[2], ARGV[3])
if known and string.sub(known, 1, 20) > ARGV[4] then
  return 0
end
local value = false
if ARGV[2] == 'drop' then
  redis.call('ZREM', KEYS[1], ARGV[3])
  redis.call('HDEL', KEYS[2], ARGV[3])
else
  value = ARGV[4] .. ':' .. ARGV[5]
  redis.call('ZADD', KEYS[1], string.format('%.6f', seconds), ARGV[3])
  redis.call('HSET', KEYS[2], ARGV[3], value)
end
if value ~= known then
  -- A user who may not publish loses the haste alone: gateways look at regular times too.
  redis.pcall('PUBLISH', ARGV[6], '')
end
redis.call('PEXPIRE', KEYS[1], math.ceil(5000 * good_for))
redis.call('PEXPIRE', KEYS[2], math.ceil(5000 * good_for))
return 1
