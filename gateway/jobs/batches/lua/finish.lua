-- Ends a batch whose results are there.
-- KEYS: the batch, its open tasks, hash of their holders, hash of what is done of them, list of parts, hash of files'
-- uses, sorted set of batches that have not ended, sorted set of content to remove
-- ARGV: the holder, id, input file, work's name, output file or '', error file or '', requests that failed beside
-- Returns 'ok' or 'lost'.
if redis.call('HGET', KEYS[3], 'finish') ~= ARGV[1] then
  return 'lost'
end
local time = redis.call('TIME')
local now = string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000)
local outcome = redis.call('HGET', KEYS[1], 'outcome')
redis.call('HSET', KEYS[1], 'status', outcome, outcome .. '_at', now, 'output_file_id', ARGV[5],
  'error_file_id', ARGV[6])
redis.call('HINCRBY', KEYS[1], 'failed', ARGV[7])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
redis.call('HINCRBY', KEYS[6], ARGV[3], -1)
redis.call('ZREM', KEYS[7], ARGV[2])
redis.call('ZADD', KEYS[8], 0, ARGV[4])
return 'ok'
