-- A page of what is listed by time.
-- KEYS: sorted set of ids, and perhaps a hash of their records
-- ARGV: id after which it begins or '', its length, 'asc' or 'desc'
-- Returns '' where there is no such id; else a list: 1 or 0 for whether there is more, and the ids or their records.
local start = 0
if ARGV[1] ~= '' then
  local rank = redis.call(ARGV[3] == 'asc' and 'ZRANK' or 'ZREVRANK', KEYS[1], ARGV[1])
  if not rank then
    return ''
  end
  start = rank + 1
end
local length = tonumber(ARGV[2])
local ids = redis.call(ARGV[3] == 'asc' and 'ZRANGE' or 'ZREVRANGE', KEYS[1], start, start + length)
local found = {#ids > length and '1' or '0'}
for i = 1, math.min(#ids, length) do
  if KEYS[2] then
    found[#found + 1] = redis.call('HGET', KEYS[2], ids[i]) or ''
  else
    found[#found + 1] = ids[i]
  end
end
return found
