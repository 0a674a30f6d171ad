-- Reservations under way: each has exactly one ending, by its holder or, when the holder is gone, by anyone's sweep.
--
-- `leases` maps a lease's id, HOLDER/NUMBER, to what it reserved, and `plan:DIGEST` is what it was reserved under.
-- `holders` has, for each worker that holds any, when it will be given up (`e:HOLDER`) and how many it has
-- (`n:HOLDER`), and the time before which nobody looks for silent ones (`next`). `inflight` counts leases by scope.

local SWEEP_MS = 1000
-- Nobody looked for so long: the store was away, or its clock has jumped. Who lives gets a grace to say so.
local SILENCE_MS, GRACE_MS = 5000, 5000
-- Renewed with every lease; no request lives nearly as long.
local PLAN_TTL_S = 7 * 86400
local CHUNK = 500
local USED, UNUSED, REJECTED = 0, 1, 2
local LEARN = 0.1
local leases_key, holders_key, plan_key = base .. ':leases', base .. ':holders', base .. ':plan:'
local inflight_key, learned_key = base .. ':inflight', base .. ':learned'
local inflight, recount, learned, plans = {}, {}, {}, {}
local leases, opened, closed, held = {}, {}, {}, {}

local function in_flight(name)
  local count = inflight[name]
  if not count then
    count = tonumber(redis.call('HGET', inflight_key, name)) or 0
    inflight[name] = count
  end
  return count
end

local function count_in_flight(name, change)
  inflight[name] = in_flight(name) + change
  recount[name] = true
end

-- Output tokens that a sequence of this model has had lately, or nil before the first.
local function expected_output(model)
  local mean = learned[model]
  if mean == nil then
    mean = {tonumber(redis.call('HGET', learned_key, model))}
    learned[model] = mean
  end
  return mean[1]
end

local function learn(model, output)
  local mean = expected_output(model)
  learned[model] = {mean and mean + LEARN * (output - mean) or output, true}
end

local function count_lease(holder, change)
  held[holder] = (held[holder] or 0) + change
end

local function open_lease(id, holder, plan, input, output, n, cost)
  local second = now_s
  for _, scope in ipairs(plan[3]) do
    count_in_flight(scope[1], 1)
    local w = window(scope[1])
    second = math.max(second, w.second)
    charge(w, R, 1)
    charge(w, I, input)
    charge(w, O, output)
  end
  local periods = {}
  for index, budget in ipairs(plan[4]) do
    local period = period_of(budget[2])
    local b = budget_at(budget[1], period, plan[2])
    b.reserved = b.reserved + cost
    b.dirty = true
    periods[index] = period
  end
  plans[plan[6]] = {plan, true}
  opened[#opened + 1] = id
  opened[#opened + 1] = cmsgpack.pack({second, input, output, n, cost, plan[6], periods})
  leases[id] = opened[#opened]
  count_lease(holder, 1)
end

local function plan_of(name)
  if not plans[name] then
    local packed = redis.call('GET', plan_key .. name)
    plans[name] = {packed and cmsgpack.unpack(packed), false}
  end
  return plans[name][1]
end

-- Read many leases at once. Before anything else of the batch, or what has ended would be there again.
local function fetch_leases(ids)
  for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    for index, packed in ipairs(redis.call('HMGET', leases_key, unpack(ids, first, last))) do
      leases[ids[first + index - 1]] = packed
    end
  end
end

-- End a fetched lease as `ending` says, with what it costs beside its tokens in nanodollars; a lease that is gone already has had its ending. One whose plan is lost only
-- goes: nothing tells what it counted in.
local function end_lease(id, ending, input, cached, output, extra)
  if not leases[id] then return 0 end
  local second, reserved_input, reserved_output, n, reserved_cost, plan_name, periods =
    unpack(cmsgpack.unpack(leases[id]))
  local plan = plan_of(plan_name)
  leases[id] = false
  closed[#closed + 1] = id
  count_lease(string.match(id, '^(.*)/[^/]*$'), -1)
  if not plan then return 0 end
  if ending ~= USED then input, cached, output, extra = 0, 0, 0, 0 end
  local cost = cost_of(plan[5], input, cached, output, extra)
  for _, scope in ipairs(plan[3]) do
    count_in_flight(scope[1], -1)
    local w = window(scope[1])
    if ending ~= USED then refund(w, R, 1, second) end
    refund(w, I, reserved_input - input, second)
    refund(w, O, reserved_output - output, second)
    charge(w, I, input - reserved_input)
    charge(w, O, output - reserved_output)
  end
  for index, budget in ipairs(plan[4]) do
    local b = budget_at(budget[1], periods[index], plan[2])
    b.reserved = b.reserved - reserved_cost
    spend(b, budget, cost)
    if b.period ~= period_of(budget[2]) then
      local later = budget_at(budget[1], period_of(budget[2]), plan[2])
      later.elsewhere, later.dirty = later.elsewhere + cost, true
    end
  end
  if ending == USED then
    record_use(plan[1], plan[2], 1, input, cached, output, cost)
  elseif ending == REJECTED then
    record_rejections(plan[1], plan[2], 1, reserved_input)
  end
  return 1, plan[1], n
end

-- End what the holder left, as if it had used what it reserved: its engines have most likely done the work.
local function abandon(holder)
  local everything = redis.call('HGETALL', leases_key)
  for index = 1, #everything, 2 do
    local id = everything[index]
    if string.sub(id, 1, #holder + 1) == holder .. '/' then
      leases[id] = everything[index + 1]
      local lease = cmsgpack.unpack(everything[index + 1])
      end_lease(id, USED, lease[2], 0, lease[3], 0)
    end
  end
  redis.call('HDEL', holders_key, 'n:' .. holder, 'e:' .. holder)
  held[holder] = nil
end

-- Look, once a second at most, for holders that have not been heard of in time; `own` is the one that speaks.
local function sweep(next_look, own)
  if next_look and now_ms < next_look and next_look <= now_ms + GRACE_MS then return end
  if next_look and now_ms > next_look + SILENCE_MS then
    redis.call('HSET', holders_key, 'next', now_ms + GRACE_MS)
    return
  end
  local found = redis.call('HGETALL', holders_key)
  for index = 1, #found, 2 do
    local holder = string.match(found[index], '^e:(.*)$')
    if holder and holder ~= own and tonumber(found[index + 1]) < now_ms then abandon(holder) end
  end
  if #found > 0 then redis.call('HSET', holders_key, 'next', now_ms + SWEEP_MS) end
end

local function write_leases()
  for first = 1, #opened, 2 * CHUNK do
    redis.call('HSET', leases_key, unpack(opened, first, math.min(first + 2 * CHUNK - 1, #opened)))
  end
  for first = 1, #closed, CHUNK do
    redis.call('HDEL', leases_key, unpack(closed, first, math.min(first + CHUNK - 1, #closed)))
  end
  for holder, change in pairs(held) do
    if change ~= 0 and redis.call('HINCRBY', holders_key, 'n:' .. holder, change) <= 0 then
      redis.call('HDEL', holders_key, 'n:' .. holder, 'e:' .. holder)
    end
  end
  for name, plan in pairs(plans) do
    if plan[2] and redis.call('EXPIRE', plan_key .. name, PLAN_TTL_S) == 0 then
      redis.call('SET', plan_key .. name, cmsgpack.pack(plan[1]), 'EX', PLAN_TTL_S)
    end
  end
end

local function write_all()
  write_leases()
  for name in pairs(recount) do
    local count = inflight[name]
    if count > 0 then
      redis.call('HSET', inflight_key, name, count)
    else
      redis.call('HDEL', inflight_key, name)
    end
  end
  for model, mean in pairs(learned) do
    if mean[2] then redis.call('HSET', learned_key, model, string.format('%.3f', mean[1])) end
  end
  for _, w in pairs(windows) do write_window(w) end
  write_budgets()
  write_ledger()
end
