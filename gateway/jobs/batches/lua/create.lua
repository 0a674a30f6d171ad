-- Makes a batch, once for each idempotency key.
-- KEYS: hash of files, hash of their uses, sorted set of batches by time, sorted set of those that have not ended,
-- the batch, its open tasks, the idempotency key, sorted set of batches by their end
-- ARGV: id, input file, request, digest of the body or '', seconds that an idempotency key is good for, most batches
-- that have not ended, seconds until it expires, seconds until it is forgotten
-- Returns the id, or 'other', 'missing', 'many'.
if ARGV[4] ~= '' then
  local known = redis.call('GET', KEYS[7])
  if known then
    local digest, id = string.match(known, '^(%S+) (%S+)$')
    return digest == ARGV[4] and id or 'other'
  end
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return 'missing'
end
if redis.call('ZCARD', KEYS[4]) >= tonumber(ARGV[6]) then
  return 'many'
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local created = string.format('%.6f', now)
redis.call('HSET', KEYS[5], 'request', ARGV[3], 'status', 'validating', 'created_at', created,
  'expires_at', string.format('%.6f', now + tonumber(ARGV[7])))
redis.call('ZADD', KEYS[3], created, ARGV[1])
redis.call('ZADD', KEYS[4], created, ARGV[1])
redis.call('ZADD', KEYS[8], string.format('%.6f', now + tonumber(ARGV[8])), ARGV[1])
redis.call('HINCRBY', KEYS[2], ARGV[2], 1)
redis.call('ZADD', KEYS[6], 0, 'check')
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[7], ARGV[4] .. ' ' .. ARGV[1], 'EX', ARGV[5])
end
return ARGV[1]
