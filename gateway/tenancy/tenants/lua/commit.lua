-- A change of tenants and keys: all of it together with its audit entry, or nothing where a value is no longer what
-- the change was made from.
--
-- KEYS: the version, the audit trail, and then one key for each step.
-- ARGV: the new version, how many audit entries are kept, actor, action, subject, before, after; and then for each
--       step the field of a hash or '' for a plain value, the value expected, and the value to set. '' is none.
-- Reply: 1, or 0 where nothing was changed.
local version, audit = KEYS[1], KEYS[2]
local first = 8

for i = 3, #KEYS do
  local at = first + 3 * (i - 3)
  local found
  if ARGV[at] == '' then
    found = redis.call('GET', KEYS[i])
  else
    found = redis.call('HGET', KEYS[i], ARGV[at])
  end
  if (found or '') ~= ARGV[at + 1] then
    return 0
  end
end

for i = 3, #KEYS do
  local at = first + 3 * (i - 3)
  local field, expected, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if value ~= expected then
    if field == '' and value == '' then
      redis.call('DEL', KEYS[i])
    elseif field == '' then
      redis.call('SET', KEYS[i], value)
    elseif value == '' then
      redis.call('HDEL', KEYS[i], field)
    else
      redis.call('HSET', KEYS[i], field, value)
    end
  end
end

redis.call('SET', version, ARGV[1])
redis.call('XADD', audit, 'MAXLEN', '~', ARGV[2], '*',
  'actor', ARGV[3], 'action', ARGV[4], 'subject', ARGV[5], 'before', ARGV[6], 'after', ARGV[7])
return 1
