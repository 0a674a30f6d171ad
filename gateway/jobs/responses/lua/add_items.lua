-- Adds items to a conversation. ARGV[2..]: the tenant's bound, id, most items, most bytes, and then ids and items in turn.
-- Reply: 'ok', 'missing' or 'full'.
local bound, id, most, left = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('EXISTS', key(id)) == 0 then return 'missing' end
left = left - tonumber(redis.call('HGET', SIZES, id) or 0)
for i = 6, #ARGV do left = left - #ARGV[i] end
if left < 0 or redis.call('ZCARD', key(id) .. ':order') + (#ARGV - 5) / 2 > most then return 'full' end
append(id, 6, bound)
return 'ok'
