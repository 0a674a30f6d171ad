-- Makes the lease of what somebody does last longer.
-- KEYS: the batch, its open tasks by the end of their lease, hash of their holders
-- ARGV: the holder, seconds, what it does
-- Returns 'lost', or what the batch is about to end as, or 'ok'.
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[1] then
  return 'lost'
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
redis.call('ZADD', KEYS[2], string.format('%.6f', now + tonumber(ARGV[2])), ARGV[3])
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if not outcome and now >= tonumber(redis.call('HGET', KEYS[1], 'expires_at')) then
  outcome = 'expired'
  redis.call('HSET', KEYS[1], 'outcome', outcome, 'status', 'finalizing', 'finalizing_at', string.format('%.6f', now))
end
return outcome or 'ok'
