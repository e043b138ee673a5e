/** Scripts that take events in, hand them out and end them. Each is preceded by the prelude. */

/** id, which of the next may be absent are there (`r`, `t`, `n`), ref, topic, notification, source, timestamp */
export const add = `
local id, given = ARGV[3], ARGV[4]
local ref = string.find(given, 'r') and ARGV[5] or false
local known = call('HMGET', event_key(id), 'seq', 'ref')
if known[1] then return answer(known[2] == ref and 'duplicate' or 'conflict') end
local event = { id = id, ref = ref, seq = call('HINCRBY', base .. ':meta', 'seq', 1) }
call('HSET', event_key(id), 'seq', event.seq, 'state', 'pending', 'received', now, 'due', now, 'source', ARGV[8], 'time', ARGV[9])
if ref then call('HSET', event_key(id), 'ref', ref) end
if string.find(given, 't') then call('HSET', event_key(id), 'topic', ARGV[6]) end
if string.find(given, 'n') then call('SET', notification_key(id), ARGV[7]) end
call('ZADD', state_key('pending'), event.seq, id)
local lock = lock_of(event)
call('ZADD', line_key('pending', lock), now, member_of(event))
lock.wait = 0
save(lock)
return answer('added')
`;

/**
 * limit, ms of lease, name of this claim, kind that goes first, event id or nothing; then the names of claims whose
 * answer got lost on its way: what they leased, nobody works on.
 */
export const claim = `
local limit, duration, name, first, only = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

if ARGV[8] then
  local lost = {}
  for index = 8, #ARGV do lost[ARGV[index]] = true end
  for _, id in ipairs(call('ZRANGE', state_key('processing'), 0, -1)) do
    local event = load(id)
    local lock = lock_of(event)
    if lock.event == id and lost[string.match(lock.lease, '^[^:]*')] then release(event, lock) end
  end
end

local claims = {}
local function lease(id)
  local event = load(id)
  local lock, member = lock_of(event), member_of(event)
  local token = name .. ':' .. #claims
  also_when_full()
  if event.state == 'pending' then call('ZREM', line_key('pending', lock), member) end
  call('ZADD', line_key('retries', lock), now + duration, member)
  set_state(event, 'processing')
  call('HSET', event_key(id), 'attempts', event.attempts + 1, 'lease_end', now + duration)
  lock.lease, lock.event, lock.lease_end = token, id, now + duration
  save(lock)
  local status = event.ref and call('HGET', base .. ':statuses', event.ref)
  claims[#claims + 1] = { id, call('HGETALL', event_key(id)), call('GET', notification_key(id)), status, token }
end

local function lease_first(kind)
  if #claims >= limit then return end
  local ready = call('ZRANGEBYSCORE', base .. ':ready:' .. kind, '-inf', now, 'LIMIT', 0, limit - #claims)
  for _, member in ipairs(ready) do
    lease(id_of(call('ZRANGE', line_key(kind, { name = id_of(member) }), 0, 0)[1]))
  end
end

if only == '' then
  lease_first(first)
  lease_first(first == 'pending' and 'retries' or 'pending')
elseif limit > 0 then
  local event = load(only)
  if event and event.state ~= 'done' and event.state ~= 'parked' then
    local lock = lock_of(event)
    local due = event.state == 'processing' and event.lease_end or event.due
    if math.max(due, lock.wait, lock.lease_end) <= now then lease(only) end
  end
end
return answer({ now, claims })
`;

/** ms of lease; then id and token of each claim. Gives the places of those still held. */
export const renew = `
local lease_end, renewed = now + tonumber(ARGV[3]), {}
for index = 4, #ARGV, 2 do
  local event, lock = held(ARGV[index], ARGV[index + 1])
  if event then
    also_when_full()
    call('HSET', event_key(event.id), 'lease_end', lease_end)
    call('ZADD', line_key('retries', lock), lease_end, member_of(event))
    lock.lease_end = lease_end
    save(lock)
    renewed[#renewed + 1] = (index - 4) / 2
  end
end
return answer(renewed)
`;

/**
 * id, token, name of this settling, state, which of the next three are there (`t`, `s`), type, status, reason,
 * error, ms to wait, 1 where the attempt counts
 */
export const settle = `
local id, name, state, given = ARGV[3], ARGV[5], ARGV[6], ARGV[7]
local key = event_key(id)
local event, lock = held(id, ARGV[4])
-- The answer to the same call was lost, and it is made once more: it has been done.
if not event then return answer(call('HGET', key, 'settled') == name and 1 or 0) end

also_when_full()
call('HSET', key, 'settled', name)
if state == 'released' then
  release(event, lock)
  return answer(1)
end

if string.find(given, 't') then call('HSET', key, 'type', ARGV[8]) end
if state == 'done' then
  call('HDEL', key, 'reason')
  if event.ref and string.find(given, 's') then
    local statuses, status = base .. ':statuses', ARGV[9]
    local known = call('HGET', statuses, event.ref)
    local sequence = 0
    local last = nil
    if known then sequence, last = string.match(known, '^(%d+):%d+:(.*)$') end
    if last ~= status then sequence = sequence + 1 end
    call('HSET', statuses, event.ref, string.format('%d:%d:%s', sequence, now, '') .. status)
    if not known then call('ZADD', base .. ':refs', 0, event.ref) end
  end
else
  call('HSET', key, 'reason', ARGV[10], 'error', ARGV[11])
end

local member = member_of(event)
if state == 'retrying' then
  local wait = now + tonumber(ARGV[12])
  if ARGV[13] == '1' then
    call('HDEL', key, 'outages', 'outage_at')
    event.due = wait
  else
    call('HSET', key, 'attempts', event.attempts - 1, 'outages', event.outages + 1, 'outage_at', event.outage_at or now)
    event.due = now
    lock.wait = wait
  end
  call('HSET', key, 'due', event.due)
  call('ZADD', line_key('retries', lock), event.due, member)
else
  call('HDEL', key, 'due', 'lease_end', 'outages', 'outage_at')
  call('HSET', key, 'ended', now)
  local order = call('HINCRBY', base .. ':meta', 'ended', 1)
  call('ZADD', base .. ':ended:' .. state, order, id)
  if state == 'parked' then call('ZADD', base .. ':ended:parked:' .. ARGV[10], order, id) end
  call('ZREM', line_key('retries', lock), member)
end
set_state(event, state)
unlock(lock)
return answer(1)
`;

/** id */
export const replay = `
local event = load(ARGV[3])
if not event or event.state == 'processing' then return answer(0) end
replay(event)
return answer(1)
`;

/** Arrival behind which to go on, how many to look at, reason or nothing, epoch ms or nothing. Gives how many were replayed, and where to go on. */
export const replayParked = `
local reason, before, last, replayed = ARGV[5], tonumber(ARGV[6]), '', 0
local rows = call('ZRANGEBYSCORE', state_key('parked'), '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
for index = 1, #rows, 2 do
  local event = load(rows[index])
  last = rows[index + 1]
  local received = tonumber(call('HGET', event_key(event.id), 'received'))
  if (reason == '' or event.reason == reason) and (not before or received < before) then
    replay(event)
    replayed = replayed + 1
  end
end
return answer({ replayed, last })
`;

/** state, reason or nothing, least age in ms, limit */
export const prune = `
local state, reason, age, limit, pruned = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), 0
local ended = base .. ':ended:' .. state
for _, id in ipairs(call('ZRANGE', reason == '' and ended or (ended .. ':' .. reason), 0, limit - 1)) do
  local v = call('HMGET', event_key(id), 'ended', 'reason')
  if tonumber(v[1]) > now - age then break end
  call('ZREM', ended, id)
  if state == 'parked' then call('ZREM', ended .. ':' .. v[2], id) end
  call('ZREM', state_key(state), id)
  call('UNLINK', event_key(id), notification_key(id))
  pruned = pruned + 1
end
return answer(pruned)
`;

/** least age in ms, limit */
export const pruneRecords = `
local seen = base .. ':seen'
local refs = call('ZRANGEBYSCORE', seen, '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, ARGV[4])
for _, ref in ipairs(refs) do
  call('ZREM', seen, ref)
  call('ZREM', base .. ':refs', ref)
  call('HDEL', base .. ':statuses', ref)
end
return answer(#refs)
`;
