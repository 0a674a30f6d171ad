-- One item of a conversation, perhaps for the last time. ARGV[2..]: id, the item's id, '1' to delete it.
-- Reply: the conversation's record and the item, '' where there is no such item; nothing if there is no conversation.
local id, item = ARGV[2], ARGV[3]
local record = redis.call('HGET', key(id), 'record')
if not record then return {} end
local found = redis.call('HGET', key(id) .. ':items', item) or ''
if ARGV[4] == '1' and found ~= '' then
  redis.call('HDEL', key(id) .. ':items', item)
  redis.call('ZREM', key(id) .. ':order', item)
  local size = #item + #found
  redis.call('HINCRBY', SIZES, id, -size)
  redis.call('HINCRBY', SIZES, '', -size)
end
return {record, found}
