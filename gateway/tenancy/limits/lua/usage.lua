-- What one tenant has used. KEYS[1] is the prefix of its keys, ARGV[1] a msgpack array: the first and last hour to read,
-- and the first and last day, counted from 1970; none where the last comes before the first. The answer: {day, field,
-- counts} for each field of each, where the ledger has packed the counts.

local from_hour, to_hour, from_day, to_day = unpack(cmsgpack.unpack(ARGV[1]))
local found = {}

local function read(kind, span, day)
  local fields = redis.call('HGETALL', KEYS[1] .. ':usage:' .. kind .. ':' .. span)
  for at = 1, #fields, 2 do
    -- An array of three: what is packed already goes on as it is.
    found[#found + 1] = '\147' .. cmsgpack.pack(day) .. cmsgpack.pack(fields[at]) .. fields[at + 1]
  end
end

for hour = from_hour, to_hour do
  read('h', hour, math.floor(hour / 24))
end
for day = from_day, to_day do
  read('d', day, day)
end
local size = #found
local bytes = {math.floor(size / 16777216), math.floor(size / 65536) % 256, math.floor(size / 256) % 256, size % 256}
return string.char(221, unpack(bytes)) .. table.concat(found)
