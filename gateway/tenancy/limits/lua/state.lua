-- What a tenant's limits and budgets hold now. ARGV[1] is a msgpack array: scope names, and budgets as {scope, 1 day or
-- 2 month}. The answer: {requests, input and output tokens of the last minute, leases} for each scope, {spent, reserved,
-- period, ms left} for each budget, and how often each limit refused, {`SCOPE|LIMIT`, count, ...}.

local names, asked = unpack(cmsgpack.unpack(ARGV[1]))
sweep(tonumber(redis.call('HGET', holders_key, 'next')))
local scopes, money = {}, {}
for index, name in ipairs(names) do
  local w = window(name)
  scopes[index] = {w.total[R], w.total[I], w.total[O], in_flight(name)}
end
for index, budget in ipairs(asked) do
  local b = budget_at(budget[1], period_of(budget[2]))
  money[index] = {b.spent, b.reserved, period_of(budget[2]), period_left(budget[2])}
end
write_all()
return cmsgpack.pack({scopes, money, redis.call('HGETALL', base .. ':refused')})
