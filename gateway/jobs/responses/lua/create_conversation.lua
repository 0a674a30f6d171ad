-- Makes a conversation, or changes what is known of one. ARGV[2..]: the tenant's bound, id, its record, '1' if it must
-- be there already, and then its first items.
-- Reply: 1, or 0 where it is not there and must be.
local bound, id, record = tonumber(ARGV[2]), ARGV[3], ARGV[4]
if ARGV[5] == '1' and redis.call('EXISTS', key(id)) == 0 then return 0 end
local before = redis.call('HGET', key(id), 'record') or ''
redis.call('HSET', key(id), 'record', record)
redis.call('HSETNX', key(id), 'last', '0')
append(id, 6, bound)
hold(id, #record - #before, bound)
return 1
