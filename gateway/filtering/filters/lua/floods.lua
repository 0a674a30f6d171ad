-- Counts a prompt among those of its tenant, by the store's clock, and tells how many were the same or like it.
--
-- KEYS[1] begins all keys of one tenant and filter; its braces are a hash tag. ARGV[1] has the milliseconds of a part of
-- the window (4 bytes), the length of the prompt's fingerprint (1 byte; 0: there is none), the fingerprint, and the values
-- of the prompt's sketch, if any. Of a digest of DIGEST bytes the first two choose a row, and the next four are its tag
-- there.
--
-- A table is a hash of at most `rows` rows; a row is a string of at most WAYS slots; a slot has a tag, the newest part
-- of the window that it counted in, and the counts of that part and the SPAN before it. So what is counted is what came
-- within SPAN parts, the one under way not reckoned in: never more than so many in any window, and an old one is
-- forgotten after a fourth of a window more. When a row is full, who comes takes one off its smallest count, and the
-- slot once that is nothing (as Misra and Gries): a table never grows, what is rare is forgotten, and no count is ever
-- too large.

local SPAN = 4
local WAYS = 4
local DIGEST = 8
local SAME_ROWS, LIKE_ROWS = 512, 2048
local FORMAT = '>c4I5I4I4I4I4I4'
local SLOT = struct.size(FORMAT)
local MOST = 4294967295

local part_ms, length, start = struct.unpack('>I4I1', ARGV[1])
local fingerprint, values = string.sub(ARGV[1], start, start + length - 1), string.sub(ARGV[1], start + length)
local clock = redis.call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local part = math.floor(now_ms / part_ms)
local ttl_ms = (SPAN + 1) * part_ms

-- A slot as of now: its tag, its newest part, its counts and their sum.
local function read(row, at)
  local tag, newest, a, b, c, d, e = struct.unpack(FORMAT, row, at)
  local counts, gone = {a, b, c, d, e}, part - newest
  if gone > SPAN or gone < -SPAN then
    -- Over; or the clock was far ahead once.
    return tag, part, {0, 0, 0, 0, 0}, 0
  end
  if gone <= 0 then
    -- Where the clock went back, time stands still until it has caught up.
    return tag, newest, counts, a + b + c + d + e
  end
  local sum = 0
  for index = SPAN + 1, 1, -1 do
    counts[index] = index > gone and counts[index - gone] or 0
    sum = sum + counts[index]
  end
  return tag, part, counts, sum
end

local function written(tag, newest, counts)
  return struct.pack(FORMAT, tag, newest, unpack(counts))
end

local function replaced(row, at, slot)
  return string.sub(row, 1, at - 1) .. slot .. string.sub(row, at + SLOT)
end

-- The row with one more of the tag, and how many of it there are.
local function counted(row, tag)
  local least, place
  for at = 1, #row, SLOT do
    if string.sub(row, at, at + 3) == tag then
      local _, newest, counts, sum = read(row, at)
      counts[1] = math.min(counts[1] + 1, MOST)
      return replaced(row, at, written(tag, newest, counts)), sum + 1
    end
  end
  local fresh = written(tag, part, {1, 0, 0, 0, 0})
  if #row < WAYS * SLOT then return row .. fresh, 1 end
  for at = 1, #row, SLOT do
    local _, _, _, sum = read(row, at)
    if not least or sum < least then least, place = sum, at end
  end
  if least <= 1 then return replaced(row, place, fresh), 1 end
  local other, newest, counts = read(row, place)
  for index = SPAN + 1, 1, -1 do
    if counts[index] > 0 then
      counts[index] = counts[index] - 1
      break
    end
  end
  return replaced(row, place, written(other, newest, counts)), 1
end

-- Count each of the digests once in a table, and give their counts.
local function count(key, rows, digests)
  local names, tags = {}, {}
  for at = 1, #digests, DIGEST do
    local high, low = string.byte(digests, at, at + 1)
    names[#names + 1] = (high * 256 + low) % rows
    tags[#tags + 1] = string.sub(digests, at + 2, at + 5)
  end
  local found, sums = {}, {}
  for index, row in ipairs(redis.call('HMGET', key, unpack(names))) do found[names[index]] = row or '' end
  for index, name in ipairs(names) do found[name], sums[index] = counted(found[name], tags[index]) end
  local fields = {}
  for name, row in pairs(found) do
    fields[#fields + 1] = name
    fields[#fields + 1] = row
  end
  redis.call('HSET', key, unpack(fields))
  redis.call('PEXPIRE', key, ttl_ms)
  return sums
end

local same, like = 0, 0
if #fingerprint > 0 then same = count(KEYS[1] .. ':same', SAME_ROWS, fingerprint)[1] end
if #values > 0 then
  -- As many prompts are like this one as had at least half of its values.
  local sums = count(KEYS[1] .. ':like', LIKE_ROWS, values)
  table.sort(sums, function(a, b) return a > b end)
  like = sums[math.ceil(#sums / 2)]
end
return cmsgpack.pack({same, like})
