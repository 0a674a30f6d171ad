-- Keeps what is there of some slices for longer. KEYS: the slices' hashes. ARGV: seconds.
for _, key in ipairs(KEYS) do
  redis.call('EXPIRE', key, ARGV[1])
end
return #KEYS
