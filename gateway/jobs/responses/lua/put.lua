-- Keeps a response that has ended, or one that a worker begins in the background.
-- ARGV[2..]: the tenant's bound, id, status, previous response or '', input, response, milliseconds of the lease or '',
-- conversation or '', and then the items that the conversation gets.
-- Reply: 1, or 0 where the conversation is gone meanwhile and gets nothing.
local bound, id, status, previous = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local input, response, lease, conversation = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local fields = {'status', status, 'previous', previous, 'input', input, 'response', response}
local done = 1
if lease ~= '' then
  fields[#fields + 1], fields[#fields + 2] = 'lease', whole(now_ms + tonumber(lease))
end
redis.call('HSET', key(id), unpack(fields))
if conversation ~= '' then
  if redis.call('EXISTS', key(conversation)) == 1 then
    -- What a later response that names this one begins with.
    redis.call('HSET', key(id), 'conversation', conversation, 'before', append(conversation, 10, bound))
  else
    done = 0
  end
end
hold(id, #input + #response, bound)
return done
