-- Entries of the audit trail, the oldest first.
--
-- KEYS: the audit trail. ARGV: the oldest id to give ('-': the first there is), and how many.
return redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
