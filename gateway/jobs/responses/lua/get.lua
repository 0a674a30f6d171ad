-- A response: status, whether it goes on, whether it is a background one, the response itself; nothing if there is none.
-- ARGV[2]: id.
local values = redis.call('HMGET', key(ARGV[2]), 'status', 'lease', 'response')
if not values[1] then return {} end
return {values[1], goes_on(values[1], values[2]) and 1 or 0, values[2] and 1 or 0, values[3]}
