-- Removes a file; its content is to be removed then.
-- KEYS: hash of records, hash of totals, hash of uses, sorted set of files by their end, sorted set of content to
-- remove, and sorted sets of files by time
-- ARGV: id, bytes, the content's name
-- Returns 'ok', 'missing' or 'used'.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 'missing'
end
if tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or '0') > 0 then
  return 'used'
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HINCRBY', KEYS[2], 'bytes', -tonumber(ARGV[2]))
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZADD', KEYS[5], 0, ARGV[3])
for i = 6, #KEYS do
  redis.call('ZREM', KEYS[i], ARGV[1])
end
return 'ok'
