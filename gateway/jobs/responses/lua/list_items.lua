-- A page of a conversation's items. ARGV[2..]: id, 'asc' or 'desc', how many, the id of the item before or '', and the
-- bytes after which there are no more of them.
-- Reply: 'ok' and the items, or 'cut' if there are more; 'missing' without the conversation, 'after' without that item.
local id, count, left = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[6])
if redis.call('EXISTS', key(id)) == 0 then return {'missing'} end
local order, start = key(id) .. ':order', 0
if ARGV[5] ~= '' then
  local rank = redis.call(ARGV[3] == 'asc' and 'ZRANK' or 'ZREVRANK', order, ARGV[5])
  if not rank then return {'after'} end
  start = rank + 1
end
local found = {'ok'}
local ids = redis.call(ARGV[3] == 'asc' and 'ZRANGE' or 'ZREVRANGE', order, start, start + count - 1)
for i, item in ipairs(ids) do
  if left < 0 then
    found[1] = 'cut'
    break
  end
  local value = redis.call('HGET', key(id) .. ':items', item)
  left = left - #value
  found[i + 1] = value
end
return found
