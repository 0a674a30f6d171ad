-- What the worker of a background response tells of it.
-- ARGV[2..]: the tenant's bound, id, milliseconds of the lease, events or '', most bytes of them.
-- Reply: 'ok', or what ended it meanwhile: its status, 'gone' or 'lapsed'.
local bound, id, lease, events, most = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local values = redis.call('HMGET', key(id), 'status', 'lease', 'events')
if not values[1] then return 'gone' end
if not goes_on(values[1], values[2]) then
  return (values[1] == 'queued' or values[1] == 'in_progress') and 'lapsed' or values[1]
end
redis.call('HSET', key(id), 'status', 'in_progress', 'lease', whole(now_ms + lease))
local size = tonumber(values[3] or 0) + #events
if events ~= '' then
  -- What does not fit is counted as well: after a gap nothing more is kept.
  redis.call('HSET', key(id), 'events', whole(size))
  if size <= most then
    redis.call('RPUSH', key(id) .. ':events', events)
    redis.call('PEXPIRE', key(id) .. ':events', whole(ttl_ms))
    hold(id, #events, bound)
  end
end
return 'ok'
