-- What has come of checking a batch's input: it begins, or it has failed.
-- KEYS: the batch, its open tasks, hash of their holders, hash of files' uses, sorted set of batches that have not
-- ended, sorted set of content to remove
-- ARGV: the holder, how many tasks or '' for failed, how many requests, model, errors, id, input file, work's name
-- Returns 'ok' or 'lost'.
if redis.call('HGET', KEYS[3], 'check') ~= ARGV[1] then
  return 'lost'
end
redis.call('ZREM', KEYS[2], 'check')
redis.call('HDEL', KEYS[3], 'check')
if redis.call('HEXISTS', KEYS[1], 'outcome') == 1 then
  return 'ok'
end
local time = redis.call('TIME')
local now = string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000)
if ARGV[2] == '' then
  redis.call('HSET', KEYS[1], 'status', 'failed', 'failed_at', now, 'errors', ARGV[5])
  redis.call('HINCRBY', KEYS[4], ARGV[7], -1)
  redis.call('ZREM', KEYS[5], ARGV[6])
  redis.call('ZADD', KEYS[6], 0, ARGV[8])
  return 'ok'
end
redis.call('HSET', KEYS[1], 'status', 'in_progress', 'in_progress_at', now, 'total', ARGV[3], 'model', ARGV[4])
for task = 0, tonumber(ARGV[2]) - 1 do
  redis.call('ZADD', KEYS[2], 0, string.format('%07d', task))
end
return 'ok'
