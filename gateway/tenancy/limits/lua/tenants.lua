-- Which tenants may have leases that nobody looks after: a sorted set of tenants by when they are to be looked at. ARGV:
-- time to live in ms, how many tenants turned out to have none, these, and those whose leases the caller holds. Gives the
-- time in ms and the tenants whose time is over; unless they are said to have none, they come again half a life later.

local clock = redis.call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local ttl_ms, last_gone = tonumber(ARGV[1]), 2 + tonumber(ARGV[2])
for index = 3, last_gone do
  -- Unless someone has made it known anew meanwhile.
  local at = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[index]))
  if at and at <= now_ms + ttl_ms / 2 then redis.call('ZREM', KEYS[1], ARGV[index]) end
end
for index = last_gone + 1, #ARGV do redis.call('ZADD', KEYS[1], now_ms + ttl_ms, ARGV[index]) end
local over = redis.call('ZRANGE', KEYS[1], 0, now_ms, 'BYSCORE', 'LIMIT', 0, 100)
for _, tenant in ipairs(over) do redis.call('ZADD', KEYS[1], now_ms + ttl_ms / 2, tenant) end
return {now_ms, over}
