-- Removes a response or a conversation. ARGV[2]: id. Reply: whether it was there.
return forget(ARGV[2])
