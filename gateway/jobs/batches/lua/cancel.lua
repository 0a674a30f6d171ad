-- Begins to end a batch.
-- KEYS: the batch
-- Returns 'ok', 'gone', or the status of one that cannot be cancelled any more.
local status = redis.call('HGET', KEYS[1], 'status')
if not status then
  return 'gone'
end
if status == 'cancelling' then
  return 'ok'
end
if status ~= 'validating' and status ~= 'in_progress' then
  return status
end
local time = redis.call('TIME')
local now = string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000)
redis.call('HSET', KEYS[1], 'status', 'cancelling', 'cancelling_at', now, 'outcome', 'cancelled')
return 'ok'
