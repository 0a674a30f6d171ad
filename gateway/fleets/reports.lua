-- Keeps what each worker reports for a while, and returns the store's time and, if asked, all reports.
-- KEYS: a sorted set of workers by the time of their report, and a hash of worker to report.
-- ARGV: seconds that a report is good for, 'all' or '', and then, to report something, the worker and its report.
local now = redis.call('TIME')
local seconds = tonumber(now[1]) + tonumber(now[2]) / 1000000
local good_for = tonumber(ARGV[1])
if ARGV[3] then
  redis.call('ZADD', KEYS[1], string.format('%.6f', seconds), ARGV[3])
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.6f', seconds - good_for))
for _, worker in ipairs(old) do
  redis.call('ZREM', KEYS[1], worker)
  redis.call('HDEL', KEYS[2], worker)
end
redis.call('PEXPIRE', KEYS[1], math.ceil(2000 * good_for))
redis.call('PEXPIRE', KEYS[2], math.ceil(2000 * good_for))
local reply = {string.format('%.6f', seconds)}
if ARGV[2] == 'all' then
  for _, report in ipairs(redis.call('HVALS', KEYS[2])) do
    reply[#reply + 1] = report
  end
end
return reply
