-- The store's time and some values, all of one moment.
--
-- KEYS: the keys to read, each as often as it has values to read.
-- ARGV: for each key the field of a hash, or '' for a plain value.
-- Reply: the time in seconds, as text, and then the values in order, '' where there is none.
local time = redis.call('TIME')
local found = {string.format('%d.%06d', time[1], time[2])}
for i, key in ipairs(KEYS) do
  local value
  if ARGV[i] == '' then
    value = redis.call('GET', key)
  else
    value = redis.call('HGET', key, ARGV[i])
  end
  found[i + 1] = value or ''
end
return found
