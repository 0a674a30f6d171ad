-- Keeps what each worker reports for a while, and returns the store's time and, if asked, all reports; with 'aged' the
-- oldest one's age in seconds comes before them.
-- KEYS: a sorted set of workers by the time of their report, and hashes of worker to report and to its number.
-- ARGV: seconds that a report is good for, 'all', 'aged' or '', and then, to report something, the worker, the number
-- of its report and, if it is a new one, the report. Without it, the last one is good for longer if it has that
-- number; else 'missing' is returned as well.
local now = redis.call('TIME')
local seconds = tonumber(now[1]) + tonumber(now[2]) / 1000000
local good_for = tonumber(ARGV[1])
local reply = {string.format('%.6f', seconds)}
if ARGV[5] then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[5])
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
end
if ARGV[3] then
  if redis.call('HGET', KEYS[3], ARGV[3]) == ARGV[4] then
    redis.call('ZADD', KEYS[1], string.format('%.6f', seconds), ARGV[3])
  else
    reply[2] = 'missing'
  end
end
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.6f', seconds - good_for))
for _, worker in ipairs(old) do
  redis.call('ZREM', KEYS[1], worker)
  redis.call('HDEL', KEYS[2], worker)
  redis.call('HDEL', KEYS[3], worker)
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, math.ceil(2000 * good_for))
end
if ARGV[2] == 'aged' then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  reply[#reply + 1] = string.format('%.6f', oldest[2] and seconds - tonumber(oldest[2]) or 0)
end
if ARGV[2] == 'all' or ARGV[2] == 'aged' then
  for _, report in ipairs(redis.call('HVALS', KEYS[2])) do
    reply[#reply + 1] = report
  end
end
return reply
