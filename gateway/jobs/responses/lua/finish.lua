-- Ends a background response, unless something else has ended it.
-- ARGV[2..]: the tenant's bound, id, status, response, its last events, milliseconds that its events stay, conversation
-- or '', and then the items that the conversation gets.
-- Reply: 1 if this ended it.
local bound, id, status, response, events = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local stay, conversation = ARGV[7], ARGV[8]
local values = redis.call('HMGET', key(id), 'status', 'lease', 'response')
if not values[1] or not goes_on(values[1], values[2]) then return 0 end
redis.call('HSET', key(id), 'status', status, 'response', response)
if events ~= '' then redis.call('RPUSH', key(id) .. ':events', events) end
redis.call('PEXPIRE', key(id) .. ':events', stay)
if conversation ~= '' and redis.call('EXISTS', key(conversation)) == 1 then
  redis.call('HSET', key(id), 'conversation', conversation, 'before', append(conversation, 9, bound))
end
hold(id, #response - #values[3] + #events, bound)
return 1
