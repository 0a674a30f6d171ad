-- Ends a background response that goes on as cancelled. ARGV[2..]: id, the response as it is then, milliseconds that its events stay.
-- Reply: 1 if this ended it.
local values = redis.call('HMGET', key(ARGV[2]), 'status', 'lease')
if not values[1] or not goes_on(values[1], values[2]) then return 0 end
redis.call('HSET', key(ARGV[2]), 'status', 'cancelled', 'response', ARGV[3])
redis.call('PEXPIRE', key(ARGV[2]) .. ':events', ARGV[4])
return 1
