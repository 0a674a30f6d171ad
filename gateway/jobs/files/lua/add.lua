-- Adds a file whose content is there; one that is there already is replaced.
-- KEYS: hash of records, sorted sets of all files and of those of its purpose by time, hash of totals, sorted set of
-- files by their end, sorted set of content to remove
-- ARGV: id, record, bytes, time, end, the content's name, most bytes and most files of the tenant or '' for no bound
-- Returns 'ok', or which bound refuses: 'bytes', 'files'.
local known = redis.call('HEXISTS', KEYS[1], ARGV[1])
if known == 0 then
  local bytes = tonumber(redis.call('HGET', KEYS[4], 'bytes') or '0')
  if ARGV[7] ~= '' and bytes + tonumber(ARGV[3]) > tonumber(ARGV[7]) then
    return 'bytes'
  end
  if ARGV[8] ~= '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[8]) then
    return 'files'
  end
  redis.call('HINCRBY', KEYS[4], 'bytes', ARGV[3])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
redis.call('ZADD', KEYS[5], ARGV[5], ARGV[1])
redis.call('ZREM', KEYS[6], ARGV[6])
return 'ok'
