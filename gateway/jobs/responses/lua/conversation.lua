-- A conversation's record, and its items in order if they are wanted. ARGV[2..]: id, most bytes of items, or ''.
-- Reply: the record, its items and their ids in turn; 'long' alone, or nothing if there is none.
local id = ARGV[2]
local record = redis.call('HGET', key(id), 'record')
if not record then return {} end
local found = {record}
if ARGV[3] ~= '' then
  local left = tonumber(ARGV[3])
  touch_conversation(id)
  for _, item in ipairs(redis.call('ZRANGE', key(id) .. ':order', 0, -1)) do
    local value = redis.call('HGET', key(id) .. ':items', item)
    left = left - #value
    if left < 0 then return {'long'} end
    found[#found + 1] = value
  end
end
return found
