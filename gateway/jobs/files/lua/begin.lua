-- Notes content that is about to be written, so that it is removed if nothing comes of it, and gives the time.
-- KEYS: sorted set of content to remove, by when
-- ARGV: the content's name, seconds until it is removed
local now = redis.call('TIME')
local seconds = tonumber(now[1]) + tonumber(now[2]) / 1000000
redis.call('ZADD', KEYS[1], string.format('%.6f', seconds + tonumber(ARGV[2])), ARGV[1])
return string.format('%.6f', seconds)
