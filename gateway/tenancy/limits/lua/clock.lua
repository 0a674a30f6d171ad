-- The store's clock, and the name that all keys of the tenant begin with. Its braces are a hash tag: in a cluster they
-- all lie in one slot, the one that the script was sent to, so the script may touch keys that it alone knows.

local base = KEYS[1]
local clock = redis.call('TIME')
local now_s = tonumber(clock[1])
local now_ms = now_s * 1000 + math.floor(tonumber(clock[2]) / 1000)
