-- What was used: by hour and by day, one packed record for each model and key; and how often each limit refused.
-- Kept in memory over a batch and written once.

local HOUR_TTL_S = 8 * 86400
local DAY_TTL_S = 400 * 86400
local FIELDS = 7  -- requests, input, cached, output, cost, rejected requests, rejected tokens
local entries = {}
local refusals = {}

local function entry(model, key)
  local name = model .. '\0' .. key
  local found = entries[name]
  if not found then
    found = {0, 0, 0, 0, 0, 0, 0}
    entries[name] = found
  end
  return found
end

local function record_use(model, key, requests, input, cached, output, cost)
  local e = entry(model, key)
  e[1], e[2], e[3], e[4] = e[1] + requests, e[2] + input, e[3] + cached, e[4] + output
  e[5] = e[5] + cost
end

local function record_rejections(model, key, requests, tokens)
  local e = entry(model, key)
  e[6], e[7] = e[6] + requests, e[7] + tokens
end

local function record_refusal(limit)
  refusals[limit] = (refusals[limit] or 0) + 1
end

local function add_to(key, ttl)
  local fresh = false
  for name, added in pairs(entries) do
    local packed = redis.call('HGET', key, name)
    fresh = fresh or not packed
    local sums = packed and cmsgpack.unpack(packed) or {0, 0, 0, 0, 0, 0, 0}
    for index = 1, FIELDS do
      sums[index] = sums[index] + added[index]
    end
    redis.call('HSET', key, name, cmsgpack.pack(sums))
  end
  if fresh then redis.call('EXPIRE', key, ttl) end
end

local function write_ledger()
  if next(entries) then
    add_to(base .. ':usage:h:' .. math.floor(now_s / 3600), HOUR_TTL_S)
    add_to(base .. ':usage:d:' .. math.floor(now_s / 86400), DAY_TTL_S)
  end
  for limit, count in pairs(refusals) do
    redis.call('HINCRBY', base .. ':refused', limit, count)
  end
end
