-- The lease of the one controller that acts.
--
-- KEYS: the lease (a hash of name, token and since), and the last token.
-- ARGV: 'take', 'keep' or 'leave'; the controller's name; its token ('' to take); milliseconds that the lease lasts.
-- Reply: the store's time, the token of whoever holds the lease now ('' if nobody), its name, and since when.
--
-- A token is the time in microseconds, and more than the last one: tokens grow even where the store has lost the last.
local time = redis.call('TIME')
local seconds = string.format('%d.%06d', time[1], time[2])
local held = redis.call('HGET', KEYS[1], 'token')
if ARGV[1] == 'take' and not held then
  local token = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call('GET', KEYS[2]) or '0')
  if last >= token then
    token = last + 1
  end
  held = string.format('%.0f', token)
  redis.call('SET', KEYS[2], held)
  redis.call('HSET', KEYS[1], 'name', ARGV[2], 'token', held, 'since', seconds)
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
elseif ARGV[1] == 'keep' and held == ARGV[3] then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
elseif ARGV[1] == 'leave' and held == ARGV[3] then
  redis.call('DEL', KEYS[1])
  held = false
end
if not held then
  return {seconds, '', '', ''}
end
local holder = redis.call('HMGET', KEYS[1], 'name', 'since')
return {seconds, held, holder[1] or '', holder[2] or ''}
