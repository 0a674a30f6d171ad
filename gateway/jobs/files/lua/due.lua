-- What of a tenant's is to be removed by now.
-- KEYS: sorted set of content to remove, sorted set of files by their end, hash of uses
-- ARGV: most of each
-- Returns a list: how many names of content, those, and then ids of files that nothing uses.
local now = redis.call('TIME')
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now[1], 'LIMIT', 0, ARGV[1])
table.insert(found, 1, tostring(#found))
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now[1], 'LIMIT', 0, ARGV[1])) do
  if tonumber(redis.call('HGET', KEYS[3], id) or '0') == 0 then
    found[#found + 1] = id
  end
end
return found
