-- What comes of a background response from some place on. ARGV[2..]: id, how many of its parts are known.
-- Reply: status, whether it goes on, whether it is a background one, the further parts; nothing if there is none.
local values = redis.call('HMGET', key(ARGV[2]), 'status', 'lease')
if not values[1] then return {} end
local parts = redis.call('LRANGE', key(ARGV[2]) .. ':events', ARGV[3], -1)
return {values[1], goes_on(values[1], values[2]) and 1 or 0, values[2] and 1 or 0, parts}
