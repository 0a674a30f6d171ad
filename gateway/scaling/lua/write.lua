-- The controller's writes: all of them, or none where another controller has the lease by now.
--
-- KEYS: the lease, and then one key for each write.
-- ARGV: the controller's token, and then for each write three values. 'put' FIELD VALUE sets a field of a hash, or
--       removes it where VALUE is ''; 'set' '' VALUE sets a plain value; 'add' MOST VALUE adds an entry to a stream;
--       'tell' '' VALUE sends a message to a channel.
-- Reply: 1, or 0 where nothing was written.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return 0
end
for i = 2, #KEYS do
  local at = 3 * (i - 2) + 2
  local what, field, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if what == 'set' then
    redis.call('SET', KEYS[i], value)
  elseif what == 'add' then
    redis.call('XADD', KEYS[i], 'MAXLEN', '~', field, '*', 'entry', value)
  elseif what == 'tell' then
    -- A user who may not publish loses the haste alone: who listens also looks by itself.
    redis.pcall('PUBLISH', KEYS[i], value)
  elseif value == '' then
    redis.call('HDEL', KEYS[i], field)
  else
    redis.call('HSET', KEYS[i], field, value)
  end
end
return 1
