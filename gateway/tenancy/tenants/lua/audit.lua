-- Entries of the audit trail, the newest first.
--
-- KEYS: the audit trail. ARGV: the newest id to give ('+', or '(' and an id for those before it), and how many.
return redis.call('XREVRANGE', KEYS[1], ARGV[1], '-', 'COUNT', ARGV[2])
