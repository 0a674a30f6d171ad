-- Adds to a subject's counts of one slice, and returns the store's time and the subject's first slice.
-- KEYS: the hash of subject to first slice, and the slice's hash.
-- ARGV: the subject, the slice's number, how many slices a reference has, the seconds for which a slice of the reference
-- and another one is kept, and then fields and what is added to them.
local since = redis.call('HGET', KEYS[1], ARGV[1])
if not since then
  since = ARGV[2]
  redis.call('HSET', KEYS[1], ARGV[1], since)
end
for place = 6, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[2], ARGV[place], ARGV[place + 1])
end
local age = tonumber(ARGV[2]) - tonumber(since)
local kept = (age >= 1 and age <= tonumber(ARGV[3])) and ARGV[4] or ARGV[5]
redis.call('EXPIRE', KEYS[2], kept)
local now = redis.call('TIME')
return {string.format('%.6f', tonumber(now[1]) + tonumber(now[2]) / 1000000), since}
