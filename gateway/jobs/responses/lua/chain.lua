-- A response and all before it, the newest first, all of them used now.
-- ARGV[2..]: id, most responses, most bytes.
-- A conversation that is gone takes the responses with it that began with its items.
-- Reply: 'ok', and for each its id, status, whether it goes on, input, response, and the items of its conversation
-- before it; or 'missing' and the id that is not there, or 'long'.
local most, left = tonumber(ARGV[3]), tonumber(ARGV[4])
local found, at = {'ok'}, ARGV[2]
while at ~= '' do
  local values = redis.call('HMGET', key(at), 'status', 'lease', 'input', 'response', 'previous', 'conversation', 'before')
  if not values[1] then return {'missing', at} end
  touch(at)
  local items = {}
  if values[6] then
    -- Nothing is answered with half a context.
    if values[7] ~= '0' and redis.call('EXISTS', key(values[6])) == 0 then return {'missing', at} end
    touch_conversation(values[6])
    local ids = redis.call('ZRANGEBYSCORE', key(values[6]) .. ':order', '-inf', values[7])
    for i, item in ipairs(ids) do
      items[i] = redis.call('HGET', key(values[6]) .. ':items', item)
      left = left - #items[i]
      if left < 0 then return {'long'} end
    end
  end
  left = left - #values[3] - #values[4]
  most = most - 1
  if most < 0 or left < 0 then return {'long'} end
  found[#found + 1] = {at, values[1], goes_on(values[1], values[2]) and 1 or 0, values[3], values[4], items}
  at = values[5]
end
return found
