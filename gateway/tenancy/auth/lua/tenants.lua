-- Returns the tenants that have keys, ended ones included.
-- KEYS[1]: hash whose fields are TENANT/NAME, one for each name of a key
local seen, tenants = {}, {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local tenant = string.match(field, '^[^/]*')
  if not seen[tenant] then
    seen[tenant] = true
    tenants[#tenants + 1] = tenant
  end
end
return tenants
