-- The last minute of one scope: requests, input tokens and output tokens.
--
-- A window is a hash with the totals `t` ("requests input output"), the second `h` up to which they hold, the last
-- second `l` that gained anything, and one such triple for each second that did. It spans the current second and the 60
-- before it, so no 60 seconds in a row hold more than the limit, and a limit that was used up at once is free again
-- after 61 seconds at the latest. Each is read once and written once for all operations of a batch.

local SPAN = 60
local WINDOW_TTL_MS = 130000
local R, I, O = 1, 2, 3
local windows = {}

local function parse(triple)
  if not triple then return {0, 0, 0} end
  local r, i, o = string.match(triple, '^(%d+) (%d+) (%d+)$')
  return {tonumber(r), tonumber(i), tonumber(o)}
end

local function format(counts)
  return string.format('%.0f %.0f %.0f', counts[R], counts[I], counts[O])
end

-- Take what has left the window out of the totals. `head` is the second they were true for.
local function slide(w, head)
  local fields, gone = {}, {}
  for second = head - SPAN, w.second - SPAN - 1 do
    fields[#fields + 1] = second
  end
  for index, triple in ipairs(redis.call('HMGET', w.key, unpack(fields))) do
    if triple then
      local counts = parse(triple)
      for kind = R, O do w.total[kind] = math.max(0, w.total[kind] - counts[kind]) end
      gone[#gone + 1] = fields[index]
    end
  end
  if #gone > 0 then redis.call('HDEL', w.key, unpack(gone)) end
end

local function window(name)
  local w = windows[name]
  if w then return w end
  local key = base .. ':window:' .. name
  local found = redis.call('HMGET', key, 'h', 'l', 't', now_s)
  local head = tonumber(found[1])
  w = {key = key, second = now_s, last = tonumber(found[2]) or 0, total = parse(found[3]), buckets = {}, changed = {},
    dirty = false, fresh = head ~= now_s}
  if head and head > now_s + SPAN then
    -- The clock went back by more than a minute, or had been ahead: what the window holds counts as used now.
    redis.call('DEL', key)
    w.buckets[now_s] = {w.total[R], w.total[I], w.total[O]}
    w.changed[now_s] = w.buckets[now_s]
    w.last, w.dirty = now_s, true
  elseif head and head > now_s then
    -- The clock went back, as after a failover: time stands still until it has caught up.
    w.second = head
  elseif head and now_s - head > SPAN then
    redis.call('DEL', key)
    w.total = {0, 0, 0}
  else
    w.buckets[now_s] = parse(found[4])
    if head and head < now_s then
      slide(w, head)
      w.dirty = true
    end
  end
  windows[name] = w
  return w
end

local function bucket(w, second)
  local found = w.buckets[second]
  if not found then
    found = parse(redis.call('HGET', w.key, second))
    w.buckets[second] = found
  end
  return found
end

local function charge(w, kind, amount)
  if amount <= 0 then return end
  local counts = bucket(w, w.second)
  counts[kind] = counts[kind] + amount
  w.total[kind] = w.total[kind] + amount
  w.last = w.second
  w.changed[w.second] = counts
  w.dirty = true
end

-- Give back what was charged at `second`, never more than is there: the store may have lost its last moments.
local function refund(w, kind, amount, second)
  second = math.min(second, w.second)
  if amount <= 0 or second < w.second - SPAN then return end
  local counts = bucket(w, second)
  amount = math.min(amount, counts[kind], w.total[kind])
  if amount <= 0 then return end
  counts[kind] = counts[kind] - amount
  w.total[kind] = w.total[kind] - amount
  w.changed[second] = counts
  w.dirty = true
end

local function write_window(w)
  if not w.dirty then return end
  local fields = {'h', w.second, 'l', w.last, 't', format(w.total)}
  for second, counts in pairs(w.changed) do
    fields[#fields + 1] = second
    fields[#fields + 1] = format(counts)
  end
  redis.call('HSET', w.key, unpack(fields))
  if w.fresh then redis.call('PEXPIRE', w.key, WINDOW_TTL_MS) end
  w.changed, w.dirty, w.fresh = {}, false, false
end

-- What a window holds of these kinds.
local function used_of(w, kinds)
  local used = 0
  for _, kind in ipairs(kinds) do used = used + w.total[kind] end
  return used
end

-- Milliseconds until `amount` of these kinds has left the window.
local function wait_for(w, kinds, amount)
  if not w.seconds then
    write_window(w)
    w.seconds = {}
    for second = w.second - SPAN, w.second do w.seconds[#w.seconds + 1] = second end
    w.triples = redis.call('HMGET', w.key, unpack(w.seconds))
  end
  for index, second in ipairs(w.seconds) do
    local counts = w.buckets[second] or parse(w.triples[index])
    for _, kind in ipairs(kinds) do amount = amount - counts[kind] end
    if amount <= 0 then return (second + SPAN + 1) * 1000 - now_ms end
  end
  return (SPAN + 1) * 1000
end

-- Milliseconds until the window is empty, if nothing more comes.
local function reset_of(w)
  if w.total[R] == 0 and w.total[I] == 0 and w.total[O] == 0 then return 0 end
  return math.max(0, (w.last + SPAN + 1) * 1000 - now_ms)
end
