-- Notes a worker's active tenants, and returns those of all workers, the one noted longest ago first.
-- KEYS[1]: sorted set of one model, by the time of the last note
-- ARGV: seconds that a note is good for, most tenants to keep, then this worker's tenants, encoded
local now = redis.call('TIME')
local seconds = tonumber(now[1]) + tonumber(now[2]) / 1000000
local good_for = tonumber(ARGV[1])
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], string.format('%.6f', seconds), ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.6f', seconds - good_for))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], math.ceil(2000 * good_for))
return redis.call('ZRANGE', KEYS[1], 0, -1)
