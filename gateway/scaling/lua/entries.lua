-- The newest entries of a stream, the newest first.
--
-- KEYS: the stream. ARGV: how many.
local found = {}
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])) do
  found[#found + 1] = entry[2][2]
end
return found
