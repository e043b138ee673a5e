/** Scripts that only look (but for the first). Each is preceded by the prelude. */

/**
 * The format that this version of stayhook writes. Notes it where nothing is there yet; gives what is, and the keys'
 * beginning. It publishes first, to nobody:
 * who may not would else be told so after he has written.
 */
export const start = `
call('PUBLISH', base .. ':wake', '')
local format = call('HGET', base .. ':meta', 'format')
if not format then call('HSET', base .. ':meta', 'format', ARGV[3]) end
return { format or ARGV[3], base }
`;

export const nextDue = `
local at = math.huge
for _, kind in ipairs({ 'pending', 'retries' }) do
  local first = call('ZRANGE', base .. ':ready:' .. kind, 0, 0, 'WITHSCORES')
  if first[1] then at = math.min(at, tonumber(first[2])) end
end
return at < math.huge and math.max(0, at - now) or false
`;

/** id */
export const get = `return row(ARGV[3])`;

/** state or nothing, limit, arrival or nothing, id or nothing: goes on behind that one. Gives rows, and the last one's arrival. */
export const list = `
local limit, before = tonumber(ARGV[4]), ARGV[5]
if ARGV[6] ~= '' then before = call('HGET', event_key(ARGV[6]), 'seq') or '0' end
before = before == '' and '+inf' or ('(' .. before)
local found = {}
for _, state in ipairs(ARGV[3] == '' and { 'pending', 'processing', 'retrying', 'done', 'parked' } or { ARGV[3] }) do
  local ids = call('ZREVRANGEBYSCORE', state_key(state), before, '-inf', 'WITHSCORES', 'LIMIT', 0, limit)
  for index = 1, #ids, 2 do found[#found + 1] = { ids[index], tonumber(ids[index + 1]) } end
end
table.sort(found, function(a, b) return a[2] > b[2] end)
local rows, last = {}, 0
for index = 1, math.min(limit, #found) do
  rows[index] = row(found[index][1])
  last = found[index][2]
end
return { rows, last }
`;

export const counts = `
local counts = {}
for index, state in ipairs({ 'pending', 'processing', 'retrying', 'done', 'parked' }) do
  counts[index] = call('ZCARD', state_key(state))
end
return counts
`;

export const oldestWaiting = `
local oldest = math.huge
local function consider(id)
  oldest = math.min(oldest, tonumber(call('HGET', event_key(id), 'received')))
end
for _, state in ipairs({ 'pending', 'retrying' }) do
  local id = call('ZRANGE', state_key(state), 0, 0)[1]
  if id then consider(id) end
end
-- As many as there are attempts on all machines together.
for _, id in ipairs(call('ZRANGE', state_key('processing'), 0, -1)) do
  if tonumber(call('HGET', event_key(id), 'lease_end')) <= now then
    consider(id)
    break
  end
end
return oldest < math.huge and math.max(0, now - oldest) or false
`;

/** ref */
export const statusOf = `return call('HGET', base .. ':statuses', ARGV[3])`;

/** ref behind which to go on, or nothing; limit */
export const statuses = `
local from = ARGV[3] == '' and '-' or ('(' .. ARGV[3])
local refs = call('ZRANGEBYLEX', base .. ':refs', from, '+', 'LIMIT', 0, ARGV[4])
if #refs == 0 then return { refs, {} } end
return { refs, call('HMGET', base .. ':statuses', unpack(refs)) }
`;
