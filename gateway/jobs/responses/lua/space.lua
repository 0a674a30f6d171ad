-- What one tenant's responses and conversations have in common. KEYS[1] begins all keys of the tenant; its braces are a
-- hash tag. Beside the records themselves there are `index`, their ids by when they end, and `sizes`, their bytes, with
-- those of all under ''. ARGV begins with the milliseconds that a record lives from its last use on.

local base = KEYS[1]
local INDEX, SIZES = base .. ':index', base .. ':sizes'
-- So much is cleared away with one call, at most.
local MOST_ENDED, MOST_EVICTED = 64, 128
-- Part of the store's memory.
local NEARLY_FULL = 0.75
-- What a record takes beside its bytes, or more: else many small ones would be far over the bound.
local RECORD_BYTES = 512
local clock = redis.call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local ttl_ms = tonumber(ARGV[1])

local function key(id)
  return base .. ':' .. id
end

local function whole(number)
  return string.format('%d', number)
end

local function forget(id)
  local found = redis.call('DEL', key(id))
  redis.call('DEL', key(id) .. ':items', key(id) .. ':order', key(id) .. ':events')
  local size = redis.call('HGET', SIZES, id)
  if size then
    redis.call('HDEL', SIZES, id)
    redis.call('HINCRBY', SIZES, '', whole(-tonumber(size)))
  end
  redis.call('ZREM', INDEX, id)
  return found
end

-- A record was used, and with it the lists of all.
local function touch(id)
  redis.call('PEXPIRE', key(id), whole(ttl_ms))
  redis.call('ZADD', INDEX, 'XX', whole(now_ms + ttl_ms), id)
  redis.call('PEXPIRE', INDEX, whole(ttl_ms))
  redis.call('PEXPIRE', SIZES, whole(ttl_ms))
end

-- A conversation was used.
local function touch_conversation(id)
  touch(id)
  redis.call('PEXPIRE', key(id) .. ':items', whole(ttl_ms))
  redis.call('PEXPIRE', key(id) .. ':order', whole(ttl_ms))
end

-- Whether the store has little room left. Limits and keys are in it too, and they must not fail for want of it.
local function nearly_full()
  local info = redis.call('INFO', 'memory')
  local most = tonumber(string.match(info, '\nmaxmemory:(%d+)'))
  local used = tonumber(string.match(info, '\nused_memory:(%d+)'))
  return most and used and most > 0 and used > most * NEARLY_FULL
end

-- A record has grown by so many bytes; what ended, and what is over the tenant's bound, goes.
local function hold(id, bytes, bound)
  redis.call('PEXPIRE', key(id), whole(ttl_ms))
  if redis.call('HEXISTS', SIZES, id) == 0 then bytes = bytes + RECORD_BYTES end
  redis.call('HINCRBY', SIZES, id, whole(bytes))
  local total = redis.call('HINCRBY', SIZES, '', whole(bytes))
  redis.call('ZADD', INDEX, whole(now_ms + ttl_ms), id)
  redis.call('PEXPIRE', INDEX, whole(ttl_ms))
  redis.call('PEXPIRE', SIZES, whole(ttl_ms))
  for _, ended in ipairs(redis.call('ZRANGEBYSCORE', INDEX, '-inf', whole(now_ms), 'LIMIT', 0, MOST_ENDED)) do
    forget(ended)
  end
  total = tonumber(redis.call('HGET', SIZES, ''))
  -- Whoever adds gives half of what is its own.
  if nearly_full() then bound = math.min(bound, total / 2) end
  local evicted = 0
  while total > bound and evicted < MOST_EVICTED do
    local oldest = redis.call('ZRANGE', INDEX, 0, 0)[1]
    if not oldest or oldest == id then break end
    forget(oldest)
    evicted = evicted + 1
    total = tonumber(redis.call('HGET', SIZES, '') or 0)
  end
end

-- Add items to a conversation: ARGV from there on has ids and items in turn. Gives how many items it had.
local function append(id, from, bound)
  local last = tonumber(redis.call('HGET', key(id), 'last'))
  local bytes, at = 0, last
  for i = from, #ARGV, 2 do
    at = at + 1
    redis.call('HSET', key(id) .. ':items', ARGV[i], ARGV[i + 1])
    redis.call('ZADD', key(id) .. ':order', at, ARGV[i])
    bytes = bytes + #ARGV[i] + #ARGV[i + 1]
  end
  redis.call('HSET', key(id), 'last', whole(at))
  redis.call('PEXPIRE', key(id) .. ':items', whole(ttl_ms))
  redis.call('PEXPIRE', key(id) .. ':order', whole(ttl_ms))
  hold(id, bytes, bound)
  return last
end

-- Whether a background response goes on: its worker says so until it has ended.
local function goes_on(status, lease)
  return (status == 'queued' or status == 'in_progress') and lease and tonumber(lease) > now_ms
end
