import { ending } from "./redis-locks.ts";

/** The scripts that list, change or delete events, snapshots or values. Arguments begin at `ARGV[3]`. */

/** Lua functions for the scripts that list or change events. */
const looking = `
local STATES = { 'done', 'pending', 'processing', 'retrying', 'parked' }
local function id_at(seq)
  for _, state in ipairs(STATES) do
    local id = call('ZRANGEBYSCORE', state_key(state), seq, seq)[1]
    if id then return id end
  end
end

-- Returns a RowReply: the event's id, fields and notification, and the end of its record's wait.
local function row(id)
  local fields = call('HGETALL', event_key(id))
  if not fields[1] then return false end
  local lock = lock_of({ id = id, ref = call('HGET', event_key(id), 'ref') })
  return { id, fields, call('GET', notification_key(id)), lock.wait }
end

-- Arguments: the arrival number below which to start, how many events to read, the limit, and the filter's fields and
-- values. Returns the ids of matching events, and the arrival number to continue from.
local function look(first)
  local filter, size, limit = {}, tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  for index = first + 3, #ARGV, 2 do filter[ARGV[index]] = ARGV[index + 1] end
  local before, found = ARGV[first] == '' and '+inf' or ('(' .. ARGV[first]), {}
  local function gather(key)
    local members = call('ZREVRANGEBYSCORE', key, before, '-inf', 'WITHSCORES', 'LIMIT', 0, size)
    for index = 1, #members, 2 do found[#found + 1] = { members[index], tonumber(members[index + 1]) } end
  end
  if filter.eventId then
    local seq = tonumber(call('HGET', event_key(filter.eventId), 'seq'))
    if seq and (ARGV[first] == '' or seq < tonumber(ARGV[first])) then found[1] = { filter.eventId, seq } end
  elseif filter.ref then
    gather(base .. ':of:' .. filter.ref)
    for _, each in ipairs(found) do each[1] = id_at(each[2]) end
  else
    for _, state in ipairs(filter.state and { filter.state } or STATES) do gather(state_key(state)) end
  end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  local ids, after, until_ = {}, tonumber(filter.receivedAfter), tonumber(filter.receivedBefore)
  for index = 1, min(size, #found) do
    local v = call('HMGET', event_key(found[index][1]), 'state', 'ref', 'type', 'reason', 'source', 'received')
    local received = tonumber(v[6])
    if (not filter.state or v[1] == filter.state) and (not filter.ref or v[2] == filter.ref)
      and (not filter.type or v[3] == filter.type) and (not filter.reason or v[4] == filter.reason)
      and (not filter.source or (v[5] or 'webhook') == filter.source)
      and (not after or received >= after) and (not until_ or received < until_) then
      ids[#ids + 1] = found[index][1]
      if #ids == limit then return ids, found[index][2] end
    end
  end
  return ids, #found >= size and found[size][2] or false
end
`;

/** Argument: event id. */
export const get = `${looking}
return row(ARGV[3])`;

/** Argument: event id. Returns the event's arrival number. */
export const arrival = `return call('HGET', event_key(ARGV[3]), 'seq')`;

/** Takes the arguments of the Lua function `look`. */
export const list = `${looking}
local ids, next = look(3)
local rows = {}
for index, id in ipairs(ids) do rows[index] = row(id) end
return { rows, next }
`;

export const counts = `
local counts = {}
for index, state in ipairs({ 'pending', 'processing', 'retrying', 'done', 'parked' }) do
  counts[index] = call('ZCARD', state_key(state))
end
return counts
`;

export const oldestWaiting = `
local first, oldest = math.huge, 0
-- Considers the first event of a state for which counts returns true.
local function consider(state, counts)
  for from = 0, math.huge, 100 do
    local found = call('ZRANGE', state_key(state), from, from + 99, 'WITHSCORES')
    for index = 1, #found, 2 do
      local v = call('HMGET', event_key(found[index]), 'received', 'due', 'began', 'lease_end')
      if counts(tonumber(v[2]) or 0, tonumber(v[3]) or 0, tonumber(v[4]) or 0) then
        local seq = tonumber(found[index + 1])
        if seq < first then first, oldest = seq, tonumber(v[1]) end
        return
      end
    end
    if #found < 200 then return end
  end
end
consider('pending', function(due, began) return due <= now or now < began end)
consider('retrying', function() return true end)
consider('processing', function(_, _, lease_end) return lease_end <= now end)
return first < math.huge and max(0, now - oldest) or false
`;

export const newestReceived = `return call('HGET', base .. ':meta', 'newest')`;

/** Argument: ref. */
export const recordOf = `return call('HGET', base .. ':records', ARGV[3])`;

/** Arguments: ref to continue after, limit. For the first page, the ref is empty. */
export const records = `
local from = ARGV[3] == '' and '-' or ('(' .. ARGV[3])
local refs = call('ZRANGEBYLEX', base .. ':refs', from, '+', 'LIMIT', 0, ARGV[4])
if #refs == 0 then return { refs, {} } end
return { refs, call('HMGET', base .. ':records', unpack(refs)) }
`;

/** Argument: key. Returns the value and its age in ms. */
export const getMeta = `
local kept = call('HGET', base .. ':values', ARGV[3])
if not kept then return false end
local at, value = string.match(kept, '^(%d+):(.*)$')
return { value, max(0, now - tonumber(at)) }
`;

/** Arguments: `replay` or `discard`, arguments of `look`. Returns the number of changes, and the next `before`. */
export const change = `${ending}${looking}
local ids, next = look(4)
local changed = 0
local function count() changed = changed + 1 end
local function replay(event, lock)
  if event.state == 'retrying' then
    local due = min(event.due, now)
    call('HSET', event_key(event.id), 'due', due)
    if leave(lock, 'later', member_of(event)) then enter_due(lock, event, due) end
  else
    leave_ended(event)
    call('HDEL', event_key(event.id), 'outages', 'outage_at', 'reason', 'ended')
    set_state(event, 'pending', 'attempts', 0, 'replayed', 1, 'due', now, 'began', now)
    enter_due(lock, event)
  end
  lock.wait, lock.wait_began = 0, 0
  save(lock)
  count()
end
for _, id in ipairs(ids) do
  local event = load(id)
  if ARGV[3] == 'replay' then
    if event.state ~= 'pending' and event.state ~= 'processing' then replay(event, lock_of(event)) end
  elseif event.state == 'parked' then
    leave_ended(event)
    finish(event, 'done', 'discarded')
    count()
  elseif event.state == 'pending' or event.state == 'retrying' then
    local lock = lock_of(event)
    leave_lines(lock, event)
    finish(event, 'done', 'discarded')
    save(lock)
    count()
  end
end
return answer({ changed, next })
`;

/** Argument: ref. Returns the number of deleted events, or -1 if an event of the record is being processed. */
export const erase = `${ending}${looking}
local ref = ARGV[3]
local lock = lock_named('ref:' .. ref)
if lock.lease_end > now then return answer(-1) end
local arrivals = call('ZRANGE', base .. ':of:' .. ref, 0, -1)
for _, seq in ipairs(arrivals) do
  local event = load(id_at(seq))
  if event.state == 'done' or event.state == 'parked' then leave_ended(event) end
  call('ZREM', state_key(event.state), event.id)
  call('UNLINK', event_key(event.id), notification_key(event.id))
end
call('UNLINK', base .. ':of:' .. ref, base .. ':lock:' .. lock.name)
for _, kind in ipairs({ 'pending', 'retries', 'due', 'later' }) do call('UNLINK', line_key(kind, lock)) end
for _, kind in ipairs({ 'pending', 'later', 'began' }) do call('ZREM', base .. ':ready:' .. kind, lock.name) end
call('ZREM', base .. ':ready:retries', lock.retry)
call('HDEL', base .. ':records', ref)
call('ZREM', base .. ':refs', ref)
call('ZREM', base .. ':seen', ref)
return answer(#arrivals)
`;

/** Arguments: ref, snapshot. Returns 1 if the record has this snapshot now, and otherwise 0. */
export const learn = `
local ref, records = ARGV[3], base .. ':records'
local known = call('HGET', records, ref)
local sequence, snapshot = 1, ARGV[4]
if known then
  sequence, snapshot = string.match(known, '^(%d+):%d+:(.*)$')
  if snapshot ~= ARGV[4] then return answer(0) end
end
local has_lock = call('EXISTS', base .. ':lock:ref:' .. ref) == 1
if not known then
  if has_lock then return answer(0) end
  local parked = state_key('parked')
  if call('EXISTS', parked) == 1 then
    for _, seq in ipairs(call('ZRANGE', base .. ':of:' .. ref, 0, -1)) do
      if call('ZCOUNT', parked, seq, seq) > 0 then return answer(0) end
    end
  end
  call('ZADD', base .. ':refs', 0, ref)
end
call('HSET', records, ref, string.format('%d:%d:', sequence, now) .. snapshot)
if not has_lock then call('ZADD', base .. ':seen', now, ref) end
return answer(1)
`;

/** Arguments: key, flags, value, expected value. Flags: `v` if there is a value, `e` if there is an expected value. */
export const setMeta = `
local values, key, given = base .. ':values', ARGV[3], ARGV[4]
local kept = call('HGET', values, key)
local value = kept and string.match(kept, '^%d+:(.*)$')
if value ~= (string.find(given, 'e') and ARGV[6] or false) then return answer(0) end
if string.find(given, 'v') then call('HSET', values, key, string.format('%d:', now) .. ARGV[5])
else call('HDEL', values, key) end
return answer(1)
`;

/** Arguments: state, reason or an empty text, minimum age in ms, limit. */
export const prune = `${ending}
local state, reason, age, limit, pruned = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), 0
local ended = base .. ':ended:' .. state
if reason ~= '' then ended = ended .. ':' .. reason end
for _, seq in ipairs(call('ZRANGEBYSCORE', ended, '-inf', now - age, 'LIMIT', 0, limit)) do
  local id = call('ZRANGEBYSCORE', state_key(state), seq, seq)[1]
  local v = call('HMGET', event_key(id), 'reason', 'ref')
  leave_ended({ seq = seq, state = state, reason = v[1] })
  call('ZREM', state_key(state), id)
  if v[2] then call('ZREM', base .. ':of:' .. v[2], seq) end
  call('UNLINK', event_key(id), notification_key(id))
  pruned = pruned + 1
end
return answer(pruned)
`;

/** Arguments: minimum age in ms, limit. */
export const pruneRecords = `
local seen = base .. ':seen'
local refs = call('ZRANGEBYSCORE', seen, '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, ARGV[4])
for _, ref in ipairs(refs) do
  call('ZREM', seen, ref)
  call('ZREM', base .. ':refs', ref)
  call('HDEL', base .. ':records', ref)
end
return answer(#refs)
`;
