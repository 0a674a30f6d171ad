-- Money in whole nanodollars. A budget's period is a hash: `spent`, `reserved` by leases under way, and `told`, the
-- largest share that has been announced; `elsewhere` is in the books of this period and was spent from the one before,
-- and `at` is the last use. It outlives its period, so that a lease which spans two is settled where it
-- was reserved.

-- It begins with what the books of its period say. What was not spent through it for a while is looked up there again:
-- it may have been taken away and set anew, or had another period meanwhile.
local BUDGET_TTL_S = 100 * 86400
local UNUSED_S = 60
local DAY, MONTH = 1, 2
local budgets, periods, alerts = {}, {}, {}

-- The calendar date, UTC, of a day counted from 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date
-- Algorithms", civil_from_days).
local function date_of(days)
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local day_of_era = shifted - era * 146097
  local year_of_era = math.floor((day_of_era - math.floor(day_of_era / 1460) + math.floor(day_of_era / 36524)
    - math.floor(day_of_era / 146096)) / 365)
  local day_of_year = day_of_era - (365 * year_of_era + math.floor(year_of_era / 4) - math.floor(year_of_era / 100))
  local shifted_month = math.floor((5 * day_of_year + 2) / 153)
  local day = day_of_year - math.floor((153 * shifted_month + 2) / 5) + 1
  local month = shifted_month < 10 and shifted_month + 3 or shifted_month - 9
  local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
  return year, month, day
end

local function period_of(kind)
  if not periods[kind] then
    local year, month, day = date_of(math.floor(now_s / 86400))
    periods[DAY] = string.format('%04d-%02d-%02d', year, month, day)
    periods[MONTH] = string.format('%04d-%02d', year, month)
  end
  return periods[kind]
end

-- Milliseconds until the period is over.
local function period_left(kind)
  local days = math.floor(now_s / 86400)
  local _, month = date_of(days)
  local first_after = days + 1
  while kind == MONTH do
    local _, later = date_of(first_after)
    if later ~= month then break end
    first_after = first_after + 1
  end
  return first_after * 86400000 - now_ms
end

-- What the books of the current day or month say that a scope has spent. A key's scope has the name of the first key of
-- its line of rotations; `own` is the one that asks.
local function booked_cost(name, period, own)
  local today, sum = math.floor(now_s / 86400), 0
  local function add(entry, cost)
    local model, key = string.match(entry, '^(%Z*)%z(.*)$')
    if name == 'tenant' or name == 'model:' .. model or name == 'key:' .. key
      or key == own and string.sub(name, 1, 4) == 'key:' then sum = sum + cost end
  end
  local first = today
  if period == period_of(MONTH) then
    local _, _, day = date_of(today)
    first = today - day + 1
  end
  for day = first, today do
    local found = redis.call('HGETALL', base .. ':usage:d:' .. day)
    for index = 1, #found, 2 do add(found[index], cmsgpack.unpack(found[index + 1])[5]) end
  end
  for entry, counts in pairs(entries) do add(entry, counts[5]) end
  return sum
end

local function budget_at(name, period, own)
  local key = base .. ':budget:' .. name .. ':' .. period
  local b = budgets[key]
  if not b then
    local found = redis.call('HMGET', key, 'spent', 'reserved', 'told', 'at', 'elsewhere')
    b = {key = key, period = period, fresh = not found[1], dirty = false, spent = tonumber(found[1]) or 0,
      reserved = tonumber(found[2]) or 0, told = tonumber(found[3]) or 0, elsewhere = tonumber(found[5]) or 0}
    budgets[key] = b
    if (period == period_of(DAY) or period == period_of(MONTH)) and now_s - (tonumber(found[4]) or 0) > UNUSED_S then
      b.spent, b.dirty = math.max(b.spent, booked_cost(name, period, own) - b.elsewhere), true
    end
  end
  return b
end

-- `extra` is what some of the tokens cost beside these prices; a worker of an earlier version does not tell it.
local function cost_of(prices, input, cached, output, extra)
  local cost = (input - cached) * prices[1] + cached * prices[2] + output * prices[3] + (extra or 0)
  return math.max(0, math.floor(cost + 0.5))
end

-- Spend on one period, and announce each share of the limit, in rising order, once all of it is spent.
local function spend(b, plan, cost)
  b.spent = b.spent + cost
  b.dirty = true
  local name, limit, shares = plan[1], plan[3], plan[4]
  for _, share in ipairs(shares) do
    if share > b.told and b.spent >= share * limit / 100 then
      b.told = share
      alerts[#alerts + 1] = {name, b.period, share, b.spent, limit}
    end
  end
end

local function write_budgets()
  for key, b in pairs(budgets) do
    if b.dirty then
      redis.call('HSET', key, 'spent', b.spent, 'reserved', math.max(0, b.reserved), 'told', b.told,
        'elsewhere', b.elsewhere, 'at', now_s)
      if b.fresh then redis.call('EXPIRE', key, BUDGET_TTL_S) end
    end
  end
end
