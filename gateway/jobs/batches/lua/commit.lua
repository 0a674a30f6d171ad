-- Adds results of a task: only its holder's, and each part once, so that no line is ever in the output twice.
-- KEYS: the batch, its open tasks, hash of their holders, hash of what is done of them, list of parts
-- ARGV: the holder, the task, the part or '', what is done of the task, then what becomes of it: 'keep', 'free' or
-- 'over', and names and numbers to add to the batch's
-- Returns 'ok' or 'lost'.
if ARGV[3] ~= '' and redis.call('HGET', KEYS[4], 'last:' .. ARGV[2]) == ARGV[3] then
  return 'ok'
end
if redis.call('HGET', KEYS[3], ARGV[2]) ~= ARGV[1] then
  return 'lost'
end
if ARGV[3] ~= '' then
  redis.call('RPUSH', KEYS[5], ARGV[3])
  redis.call('HSET', KEYS[4], 'last:' .. ARGV[2], ARGV[3])
end
redis.call('HSET', KEYS[4], ARGV[2], ARGV[4])
for i = 6, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
if ARGV[5] == 'free' then
  redis.call('ZADD', KEYS[2], 0, ARGV[2])
  redis.call('HDEL', KEYS[3], ARGV[2])
elseif ARGV[5] == 'over' then
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call('HDEL', KEYS[3], ARGV[2])
  if redis.call('ZCARD', KEYS[2]) == 0 then
    if redis.call('HEXISTS', KEYS[1], 'outcome') == 0 then
      local time = redis.call('TIME')
      local now = string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000)
      redis.call('HSET', KEYS[1], 'outcome', 'completed', 'status', 'finalizing', 'finalizing_at', now)
    end
    redis.call('ZADD', KEYS[2], 0, 'finish')
  end
end
return 'ok'
