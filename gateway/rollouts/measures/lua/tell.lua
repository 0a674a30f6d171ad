-- Notes what a client tells of an answer. Each kind counts once.
-- KEYS: a hash of answer ids, which has what was told by id and kind. ARGV: the id, and then kinds.
-- Returns the kinds that are new; none, where the answer is gone.
local reply = {}
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  for place = 2, #ARGV do
    if redis.call('HSETNX', KEYS[1], ARGV[1] .. ' ' .. ARGV[place], '') == 1 then
      reply[#reply + 1] = ARGV[place]
    end
  end
end
return reply
