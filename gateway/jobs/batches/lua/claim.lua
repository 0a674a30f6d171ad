-- Takes something to do of a batch: 'check', a task's number, or 'finish'.
-- KEYS: the batch, its open tasks by the end of their lease, hash of their holders, hash of what is done of them
-- ARGV: the holder, seconds that its lease is good for, 1 if it may be a task and 0 if not
-- Returns {what, what is done of it}, or {'wait'} where there is nothing now, or {'over'}, or {'gone'}.
local status = redis.call('HGET', KEYS[1], 'status')
if not status then
  return {'gone'}
end
if status == 'completed' or status == 'failed' or status == 'expired' or status == 'cancelled' then
  return {'over'}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if not outcome and now >= tonumber(redis.call('HGET', KEYS[1], 'expires_at')) then
  outcome = 'expired'
  redis.call('HSET', KEYS[1], 'outcome', outcome, 'status', 'finalizing', 'finalizing_at', string.format('%.6f', now))
end
if outcome and outcome ~= 'completed' then
  -- Tasks that nobody runs are not begun any more; those that somebody runs are about to be given back.
  for _, task in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now))) do
    if task ~= 'finish' then
      redis.call('ZREM', KEYS[2], task)
      redis.call('HDEL', KEYS[3], task)
    end
  end
  if redis.call('ZCARD', KEYS[2]) == 0 then
    redis.call('ZADD', KEYS[2], 0, 'finish')
  end
end
local task = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now), 'LIMIT', 0, 1)[1]
if not task or (ARGV[3] == '0' and task ~= 'finish' and task ~= 'check') then
  return {'wait'}
end
redis.call('ZADD', KEYS[2], string.format('%.6f', now + tonumber(ARGV[2])), task)
redis.call('HSET', KEYS[3], task, ARGV[1])
return {task, redis.call('HGET', KEYS[4], task) or ''}
