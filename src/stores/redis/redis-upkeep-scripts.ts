import { evenIfFull } from "./redis-lua.ts";

/** The scripts that read, list, change or delete events, snapshots or values. */

/** Lua functions for the scripts that list or change events. */
const looking = `
local STATES = { 'scheduled', 'pending', 'processing', 'retrying', 'done', 'parked' }

-- Returns the ids of the events of a slice that match the filter, and the arrival number to continue from.
local function look(filter, before, size, limit)
  local to, found = before and ('(' .. before) or '+inf', {}
  local function gather(from)
    local members = call('ZREVRANGEBYSCORE', from, to, '-inf', 'WITHSCORES', 'LIMIT', 0, size)
    for index = 1, #members, 2 do found[#found + 1] = { members[index], tonumber(members[index + 1]) } end
  end
  if filter.eventId then
    local seq = tonumber(call('HGET', key('event', filter.eventId), 'seq'))
    if seq and (not before or seq < before) then found[1] = { filter.eventId, seq } end
  elseif filter.ref then gather(key('of', 'r' .. filter.ref))
  elseif filter.account then gather(key('account', filter.account))
  else
    for _, state in ipairs(filter.state and { filter.state } or STATES) do gather(key('state', state)) end
  end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  local ids, after, until_, times = {}, filter.receivedAfter, filter.receivedBefore, filter.timestamps
  local function is_of(record) return string.match(record or '', '^[re]([%w_.-]+)/') == filter.account end
  for index = 1, min(size, #found) do
    local v = call('HMGET', key('event', found[index][1]), 'state', 'record', 'type', 'reason', 'source', 'received',
      'time')
    local received = tonumber(v[6])
    -- An event without a state is one whose key somebody deleted.
    if v[1] and (not filter.state or v[1] == filter.state) and (not filter.ref or v[2] == 'r' .. filter.ref)
      and (not filter.account or is_of(v[2])) and (not filter.type or v[3] == '=' .. filter.type) and (not filter.reason or v[4] == filter.reason)
      and (not filter.source or v[5] == filter.source) and (not times or v[7] == times[1] or v[7] == times[2])
      and (not after or received >= after) and (not until_ or received < until_) then
      ids[#ids + 1] = found[index][1]
      if #ids == limit then return ids, found[index][2] end
    end
  end
  return ids, #found >= size and found[size][2] or false
end

local function stored(id)
  local event = load(id)
  return event and row(id, call('ZSCORE', key('open', event.record), event.member)) or false
end
`;

export const get = `${looking}
return stored(input.id)`;

export const arrival = `return call('HGET', key('event', input.id), 'seq')`;

export const list = `${looking}
local ids, next = look(input.filter, input.before, input.size, input.limit)
local rows = {}
for index, id in ipairs(ids) do rows[index] = stored(id) end
return { rows, next }
`;

/**
 * Returns the events that lost claims have leased. Redis may run such a claim later, after a connection or the server
 * stood still. It then leases nothing.
 */
export const findLost = `${evenIfFull}
local names, rows = {}, {}
for _, name in ipairs(input.names) do
  names[name] = true
  call('SET', key('lost', name), 1, 'PX', input.keep)
end
for _, id in ipairs(call('ZRANGE', key('state', 'processing'), 0, -1)) do
  local name = string.match(call('HGET', key('event', id), 'lease') or '', '^[^:]*')
  if names[name] then rows[#rows + 1] = row(id, false) end
end
return rows
`;

export const counts = `
local counts = {}
for index, state in ipairs(input) do
  counts[index] = call('ZCARD', key('state', state))
end
return counts
`;

export const oldestWaiting = `
local oldest = tonumber(call('ZRANGE', SINCE, 0, 0, 'WITHSCORES')[2])
if oldest and oldest > now then
  -- A scheduled event does not wait yet. After the clock was set back, other events may have been due later than now.
  oldest = call('EXISTS', key('state', 'pending'), key('state', 'retrying')) > 0 and now or nil
end
for _, id in ipairs(call('ZRANGE', key('state', 'processing'), 0, -1)) do
  local event = load(id)
  if event and (due_of(event) or now) <= now then oldest = min(oldest or now, event.first_due) end
end
return oldest and now - oldest or false
`;

/** `SINCE` has the events that wait, and the scheduled ones by their due time. */
export const scheduledDue = `
local waiting = call('ZCARD', key('state', 'pending')) + call('ZCARD', key('state', 'retrying'))
return math.max(0, call('ZCOUNT', SINCE, '-inf', now) - waiting)
`;

export const lastReceivedAt = `return call('HGET', base .. ':meta', 'received')`;

export const snapshotOf = `return { call('HGET', SNAPSHOTS, input.ref), call('HGET', LEDGERS, input.ref) }`;

export const snapshots = `
local from = input.after and ('(' .. input.after) or '-'
local refs = call('ZRANGEBYLEX', REFS, from, '+', 'LIMIT', 0, input.limit)
if #refs == 0 then return { refs, {}, {} } end
return { refs, call('HMGET', SNAPSHOTS, unpack(refs)), call('HMGET', LEDGERS, unpack(refs)) }
`;

export const getMeta = `
local kept = call('HGET', base .. ':values', input.key)
if not kept then return false end
local at, value = string.match(kept, '^(%d+):(.*)$')
return { value, max(0, now - tonumber(at)) }
`;

export const setMeta = `${evenIfFull}
local values = base .. ':values'
local kept = call('HGET', values, input.key)
if (kept and string.match(kept, '^%d+:(.*)$') or nil) ~= input.expected then return 0 end
if not input.value then call('HDEL', values, input.key)
else call('HSET', values, input.key, string.format('%d:', now) .. input.value) end
return 1
`;

/** Lua function that reads the rows of a scope. */
const loading = `
local function load_scope(scope, ids)
  local records, events, seen = {}, {}, {}
  local function see_record(record)
    if seen[record] then return end
    seen[record] = true
    -- A replay or discard reads events alone.
    records[#records + 1] = scope.eventsOnly and { record } or { record,
      call('HMGET', key('record', record), 'event', 'lease_end', 'duration'), call('ZSCORE', DUE, record),
      of_ref(SNAPSHOTS, record), of_ref(LEDGERS, record) }
  end
  local function see(id, record)
    if seen[':' .. id] then return end
    seen[':' .. id] = true
    local v = call('HMGET', key('event', id), 'record', 'seq', 'state', 'received', 'time', 'source', 'attempts', 'outages',
      'outage_at', 'failures', 'refusals', 'first_due', 'replayed', 'ended', 'type', 'reason')
    if v[1] then
      see_record(v[1])
      events[#events + 1] = { id, v, call('ZSCORE', key('open', v[1]), string.format('%014d', v[2]) .. id) }
    elseif record then forget(id, record) end
  end
  for _, record in ipairs(scope.records) do
    see_record(record)
    if scope.ended == 'timers' or scope.ended == 'all' then
      local own = string.sub(record, 1, 1) == 'e' and { string.sub(record, 2) } or call('ZRANGE', key('of', record), 0, -1)
      for _, id in ipairs(own) do see(id, record) end
    elseif not ids then
      for _, member in ipairs(call('ZRANGE', key('open', record), 0, -1)) do see(id_of(member), record) end
    end
  end
  for _, id in ipairs(ids or {}) do see(id) end
  return cjson.encode({ records, events })
end
`;

/** Returns the time, the rows of a scope as JSON, the ids of events that match the scope's filter, and where to go on. */
export const load = `${evenIfFull}${looking}${loading}
local ids, next, find = input.ids, false, input.find
if find then ids, next = look(find.filter, find.before, find.size, find.limit) end
return { now, load_scope(input, ids), ids or {}, next }
`;

/** Writes what a rule has changed, if the rows of its scope are still the same. */
export const write = `${loading}
-- Redis checks its memory at a first write that is no delete.
if #input.inserts == 0 and #input.snapshots == 0 and #input.ledgers == 0 then call('DEL', base .. ':none') end
if redis.sha1hex(load_scope(input.scope, input.scope.ids)) ~= input.sum then return 0 end
for _, record in ipairs(input.ended) do end_lease(record) end
for _, id in ipairs(input.drops) do drop(load(id)) end
for _, new in ipairs(input.inserts) do
  insert(new, new.state, new.due, new.reason, new.received, new.firstDue)
  note_received(new.source, new.received)
end
for _, changed in ipairs(input.changes) do
  local event = load(changed.id)
  event.ended, event.first_due = changed.ended, changed.firstDue
  move(event, changed.state, changed.due, changed.reason, unpack(changed.fields))
  if changed.drops then call('DEL', key('notification', changed.id)) end
end
for _, held in ipairs(input.holds) do hold(held.record, load(held.id), held.leaseEnd, held.duration) end
for _, new in ipairs(input.snapshots) do write_snapshot(new.ref, new.sequence, new.seenAt, new.snapshot) end
for _, new in ipairs(input.ledgers) do write_ledger(new.ref, new.ledger) end
for _, ref in ipairs(input.forgotten) do
  forget_snapshot(ref)
  -- From now on, the record's timers that have fired are pruned.
  for _, id in ipairs(call('ZRANGE', key('of', 'r' .. ref), 0, -1)) do
    local v = call('HMGET', key('event', id), 'source', 'state', 'ended')
    if v[1] == 'timer' and v[2] == 'done' then call('ZADD', key('ended', 'done'), v[3], id) end
  end
end
for _, record in ipairs(input.touched) do refresh(record, 0) end
return answer(1)
`;

export const dueRecords = `return call('ZRANGE', DUE, 0, -1)`;

/**
 * Returns records of an account whose events have arrived after an event, and the arrival number to go on from. Then returns
 * the records that have a snapshot or a ledger alone, from a ref on.
 */
export const recordsOf = `${evenIfFull}
local account, limit, records, own = input.account, input.limit, {}, key('account', input.account)
if not input.ref then
  local found = call('ZRANGEBYSCORE', own, '(' .. input.seq, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  for index = 1, #found, 2 do
    local id = found[index]
    local record = call('HGET', key('event', id), 'record')
    if not record then call('ZREM', own, id)
    -- Each record comes once: with its first event.
    elseif string.sub(record, 1, 1) == 'e' or call('ZRANGE', key('of', record), 0, 0)[1] == id then
      records[#records + 1] = record
    end
  end
  return { records, found[#found] or false, false }
end
local from = input.ref == '' and '[' .. account .. '/' or '(' .. input.ref
local refs = call('ZRANGEBYLEX', REFS, from, '(' .. account .. '0', 'LIMIT', 0, limit)
for _, ref in ipairs(refs) do
  if not is_leased('r' .. ref) then records[#records + 1] = 'r' .. ref end
end
return { records, false, refs[#refs] or false }
`;

/** Returns the refs of the oldest snapshots whose records have nothing to do. */
export const oldSnapshots = `
local found, skipped = {}, 0
repeat
  local refs = call('ZRANGEBYSCORE', SEEN, '-inf', now - input.age, 'LIMIT', skipped, input.limit)
  for _, ref in ipairs(refs) do
    if #found < input.limit and not call('ZSCORE', DUE, 'r' .. ref) then found[#found + 1] = ref end
  end
  skipped = skipped + #refs
until #refs == 0 or #found == input.limit
return found
`;

/** Takes a timer that its record's snapshot keeps out of `:ended:done`, so that no later call reads the timer. */
export const prune = `${evenIfFull}
local ended, pruned = key('ended', input.state), 0
if input.reason then ended = key('ended:parked', input.reason) end
repeat
  local ids = call('ZRANGEBYSCORE', ended, '-inf', now - input.age, 'LIMIT', 0, input.limit - pruned)
  for _, id in ipairs(ids) do
    local event = load(id)
    local is_timer = event and event.state == 'done' and event.source == 'timer'
    if not event then
      call('ZREM', ended, id)
      forget(id)
    elseif is_timer and call('HEXISTS', SNAPSHOTS, string.sub(event.record, 2)) == 1 then call('ZREM', ended, id)
    else
      drop(event)
      pruned = pruned + 1
    end
  end
until #ids == 0 or pruned == input.limit
return pruned
`;
