-- One batch of one tenant's operations, from one worker, in order; all that a batch does happens at once.
--
-- ARGV[1] is a msgpack array: holder, its time to live in ms, the time in ms after which a reservation is no longer
-- wanted (0: always), the plans, and the operations; without any, it tells that the holder is alive. The answer is a
-- msgpack array: the time in ms, one answer an operation, or without any whether the tenant still has leases, and the
-- budget alerts {scope, period, percent, spent, limit}.
--
-- A plan is {model, key id, scopes, budgets, {input, cached and output price in nanodollars a token}, its own digest};
-- a scope is {name, requests, tokens, input tokens and output tokens a minute, concurrency}, 0 for no limit; a budget is
-- {scope, 1 day or 2 month, nanodollars, alert percentages}. Operations name a plan by its place in the batch.

local RESERVE, SETTLE, BOOK = 1, 2, 3
local BOOKED_TTL_MS = 3600000
local RATES = {{'requests_per_minute', 2, {R}}, {'tokens_per_minute', 3, {I, O}},
  {'input_tokens_per_minute', 4, {I}}, {'output_tokens_per_minute', 5, {O}}}

-- The tightest limits on requests and on tokens: {limit, remaining, ms until all of it is free} each, 0 for none.
local function headroom(scopes)
  local requests, tokens = {0, 0, 0}, {0, 0, 0}
  for _, scope in ipairs(scopes) do
    local w = window(scope[1])
    for _, rate in ipairs(RATES) do
      local limit = scope[rate[2]]
      if limit > 0 then
        local best = rate[2] == 2 and requests or tokens
        local left = math.max(0, limit - used_of(w, rate[3]))
        if best[1] == 0 or left < best[2] then
          best[1], best[2], best[3] = limit, left, reset_of(w)
        end
      end
    end
  end
  return requests[1], requests[2], requests[3], tokens[1], tokens[2], tokens[3]
end

-- Output tokens to reserve: what the model has given lately, at most what the request may have and what any limit has.
local function estimate(plan, input, most, n, unknown)
  local tokens = math.min(most, math.max(1, math.ceil((expected_output(plan[1]) or unknown) * n)))
  for _, scope in ipairs(plan[3]) do
    if scope[3] > 0 then tokens = math.min(tokens, math.max(1, scope[3] - input)) end
    if scope[5] > 0 then tokens = math.min(tokens, scope[5]) end
  end
  return tokens
end

-- The limit that refuses, if any does: the one that keeps the request waiting longest. {limit, scope, its value, used,
-- asked, ms until there may be room; -1: never}.
local function refusal(plan, input, output)
  local worst
  local function consider(...)
    local found = {...}
    if not worst or worst[6] ~= -1 and (found[6] == -1 or found[6] > worst[6]) then worst = found end
  end
  local asked = {1, input + output, input, output}
  for _, scope in ipairs(plan[3]) do
    local name, w = scope[1], window(scope[1])
    if scope[6] > 0 and in_flight(name) >= scope[6] then
      consider('concurrent_requests', name, scope[6], in_flight(name), 1, 1000)
    end
    for index, rate in ipairs(RATES) do
      local limit = scope[rate[2]]
      if limit > 0 then
        local used = used_of(w, rate[3])
        if asked[index] > limit then
          consider(rate[1], name, limit, used, asked[index], -1)
        elseif used + asked[index] > limit then
          consider(rate[1], name, limit, used, asked[index], wait_for(w, rate[3], used + asked[index] - limit))
        end
      end
    end
  end
  -- Only what the request costs at least counts here: an estimate must not refuse what would have fitted.
  local least = cost_of({math.min(plan[5][1], plan[5][2]), 0, plan[5][3]}, input, 0, 1)
  for _, budget in ipairs(plan[4]) do
    local b = budget_at(budget[1], period_of(budget[2]), plan[2])
    if b.spent + least > budget[3] then
      return {'budget', budget[1], budget[3], b.spent, least, -1, period_left(budget[2]), budget[2]}
    elseif b.spent + b.reserved + least > budget[3] then
      consider('budget_in_use', budget[1], budget[3], b.spent + b.reserved, least, 1000)
    end
  end
  return worst
end

local function reserve(op, plan, holder, too_late)
  if too_late then return {2} end
  local id, input, most, n, unknown = op[2], op[4], op[5], op[6], op[7]
  local output = estimate(plan, input, most, n, unknown)
  local refused = refusal(plan, input, output)
  if refused then
    record_rejections(plan[1], plan[2], 1, input)
    record_refusal(refused[2] .. '|' .. refused[1])
    return {0, refused, headroom(plan[3])}
  end
  open_lease(id, holder, plan, input, output, n, cost_of(plan[5], input, 0, output))
  return {1, output, headroom(plan[3])}
end

local function settle(op)
  local ended, model, n = end_lease(op[2], op[3], op[4], op[5], op[6], op[7])
  if ended == 1 and op[3] == USED and op[6] > 0 then learn(model, op[6] / n) end
  return ended
end

-- Use that was counted elsewhere, numbered by its holder so that saying it again does not count it again.
local function book(op, plan, holder)
  local booked_key, number = base .. ':booked', op[2]
  local last = tonumber(redis.call('HGET', booked_key, holder)) or 0
  if number <= last then return 0 end
  redis.call('HSET', booked_key, holder, number)
  redis.call('PEXPIRE', booked_key, BOOKED_TTL_MS)
  local requests, input, cached, output = op[4], op[5], op[6], op[7]
  local cost = cost_of(plan[5], input, cached, output, op[10])
  for _, scope in ipairs(plan[3]) do
    local w = window(scope[1])
    charge(w, R, requests)
    charge(w, I, input)
    charge(w, O, output)
  end
  for _, budget in ipairs(plan[4]) do
    spend(budget_at(budget[1], period_of(budget[2]), plan[2]), budget, cost)
  end
  record_use(plan[1], plan[2], requests, input, cached, output, cost)
  record_rejections(plan[1], plan[2], op[8], op[9])
  return 1
end

local holder, ttl_ms, deadline_ms, plan_list, operations = unpack(cmsgpack.unpack(ARGV[1]))
local ending, answers = {}, {}
for _, op in ipairs(operations) do
  if op[1] == SETTLE then ending[#ending + 1] = op[2] end
end
fetch_leases(ending)
local known = redis.call('HMGET', holders_key, 'next', 'n:' .. holder)
sweep(tonumber(known[1]), holder)
for index, op in ipairs(operations) do
  if op[1] == RESERVE then
    answers[index] = reserve(op, plan_list[op[3]], holder, deadline_ms > 0 and now_ms > deadline_ms)
  elseif op[1] == SETTLE then
    answers[index] = settle(op)
  else
    answers[index] = book(op, plan_list[op[3]], holder)
  end
end
local holds = (tonumber(known[2]) or 0) + (held[holder] or 0)
held[holder] = nil
write_all()
if holds > 0 then
  redis.call('HSET', holders_key, 'n:' .. holder, holds, 'e:' .. holder, now_ms + ttl_ms)
  if not known[1] then redis.call('HSETNX', holders_key, 'next', now_ms + SWEEP_MS) end
elseif known[2] then
  redis.call('HDEL', holders_key, 'n:' .. holder, 'e:' .. holder)
end
if #operations == 0 then answers[1] = redis.call('HLEN', leases_key) > 0 end
return cmsgpack.pack({now_ms, answers, alerts})
