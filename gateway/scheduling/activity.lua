-- Notes a worker's active tenants, and returns those of all workers, the one noted longest ago first.
-- KEYS[1]: sorted set of the models with active tenants, by the time of the last note
-- KEYS[2] and further: sorted sets of active tenants, one for each model asked for, by the time of the last note
-- ARGV: seconds that a note is good for, most tenants of a model to keep, then for each of those models its name, how
-- many tenants this worker notes, and these, encoded
-- Returns the models with active tenants, and then the tenants of each model asked for.
local now = redis.call('TIME')
local seconds = tonumber(now[1]) + tonumber(now[2]) / 1000000
local good_for = tonumber(ARGV[1])
local noted = string.format('%.6f', seconds)
local too_old = string.format('(%.6f', seconds - good_for)
local keep_ms = math.ceil(2000 * good_for)
local reply = {false}
local at = 3
local notes = false
for i = 2, #KEYS do
  local model, count = ARGV[at], tonumber(ARGV[at + 1])
  for j = at + 2, at + 1 + count do
    redis.call('ZADD', KEYS[i], noted, ARGV[j])
  end
  at = at + 2 + count
  if count > 0 then
    notes = true
    redis.call('ZADD', KEYS[1], noted, model)
    redis.call('PEXPIRE', KEYS[i], keep_ms)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', too_old)
  redis.call('ZREMRANGEBYRANK', KEYS[i], 0, -1 - tonumber(ARGV[2]))
  reply[i] = redis.call('ZRANGE', KEYS[i], 0, -1)
end
if notes then
  redis.call('PEXPIRE', KEYS[1], keep_ms)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', too_old)
reply[1] = redis.call('ZRANGE', KEYS[1], 0, -1)
return reply
