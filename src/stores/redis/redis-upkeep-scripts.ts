import { evenIfFull, removing } from "./redis-lua.ts";

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
  -- A scheduled event does not wait yet. After the clock was set back, other events may have been received later than now.
  oldest = call('EXISTS', key('state', 'pending'), key('state', 'retrying')) > 0 and now or nil
end
for _, id in ipairs(call('ZRANGE', key('state', 'processing'), 0, -1)) do
  local event = load(id)
  if event and (due_of(event) or now) <= now then oldest = min(oldest or now, event.received) end
end
return oldest and now - oldest or false
`;

/** `SINCE` has the events that wait, and the scheduled ones by their due time. */
export const scheduledDue = `
local waiting = call('ZCARD', key('state', 'pending')) + call('ZCARD', key('state', 'retrying'))
return math.max(0, call('ZCOUNT', SINCE, '-inf', now) - waiting)
`;

export const lastReceivedAt = `return call('HGET', base .. ':meta', 'received')`;

export const snapshotOf = `return call('HGET', SNAPSHOTS, input.ref)`;

export const snapshots = `
local from = input.after and ('(' .. input.after) or '-'
local refs = call('ZRANGEBYLEX', base .. ':refs', from, '+', 'LIMIT', 0, input.limit)
if #refs == 0 then return { refs, {} } end
return { refs, call('HMGET', SNAPSHOTS, unpack(refs)) }
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

export const change = `${evenIfFull}${looking}
local states, changed = {}, 0
for _, state in ipairs(input.states) do states[state] = true end

local function replay(event)
  local due = due_of(event)
  if due and due <= now then return end
  if event.state == 'done' or event.state == 'parked' then
    move(event, 'pending', now, '', 'attempts', '', 'outages', '', 'outage_at', '', 'replayed', 1)
  else move(event, event.state, now) end
  become_due(event.record, now)
  changed = changed + 1
end

local function discard(event)
  move(event, 'done', nil, 'discarded')
  -- A record that begins with "e" is that of an event without a ref.
  if string.sub(event.record, 1, 1) == 'e' then call('DEL', key('notification', event.id)) end
  refresh(event.record, 0)
  changed = changed + 1
end

local ids, next = look(input.filter, input.before, input.size, input.limit)
for _, id in ipairs(ids) do
  local event = load(id)
  if states[event.state] then
    if input.change == 'replay' then replay(event) else discard(event) end
  end
end
return answer({ changed, next })
`;

export const remove = `${evenIfFull}${removing}
local removed = remove(input.record, input.what)
refresh(input.record, 0)
return answer(removed)
`;

/** Returns -1 if an event of the record is being processed. */
export const erase = `${evenIfFull}
local ref, record = input.ref, 'r' .. input.ref
if tonumber(call('HGET', key('record', record), 'lease_end') or 0) > now then return -1 end
local ids = call('ZRANGE', key('of', record), 0, -1)
for _, id in ipairs(ids) do
  local event = load(id)
  if event then drop(event) else forget(id, record) end
end
-- What an event leaves behind whose key somebody deleted.
call('DEL', key('open', record), key('of', record))
forget_snapshot(ref)
call('DEL', key('record', record))
call('ZREM', DUE, record)
return #ids
`;

/**
 * Deletes a batch of an account. \`skip\` and \`past\` are the numbers of events and snapshots that were kept before, because
 * their records are being processed.
 */
export const eraseAccount = `${evenIfFull}
local account, limit, skip, past = input.account, input.limit, input.skip, input.past
local own, events, snapshots, processing, records = key('account', account), 0, 0, 0, {}
local function is_held(record) return tonumber(call('HGET', key('record', record), 'lease_end') or 0) > now end

local ids = call('ZRANGE', own, skip, skip + limit - 1)
for _, id in ipairs(ids) do
  local event = load(id)
  if not event then call('ZREM', own, id)
  elseif is_held(event.record) then
    skip = skip + 1
    if event.state == 'processing' then processing = processing + 1 end
  else
    if event.state == 'processing' then call('DEL', key('record', event.record)) end
    drop(event)
    events = events + 1
    records[event.record] = true
  end
end
for record in pairs(records) do refresh(record, 0) end

local refs = {}
if #ids < limit then
  refs = call('ZRANGEBYLEX', base .. ':refs', '[' .. account .. '/', '(' .. account .. '0', 'LIMIT', past, limit)
  for _, ref in ipairs(refs) do
    if is_held('r' .. ref) then past = past + 1
    else
      forget_snapshot(ref)
      snapshots = snapshots + 1
    end
  end
end
return { events, snapshots, processing, (#ids == limit or #refs == limit) and (skip .. ',' .. past) or false }
`;

export const learn = `
local ref = input.ref
local known = call('HGET', SNAPSHOTS, ref)
if known then
  local sequence, snapshot = string.match(known, '^(%d+):%d+:(.*)$')
  if snapshot ~= input.snapshot then return 0 end
  write_snapshot(ref, sequence, now, snapshot)
  return 1
end
local open = call('ZRANGE', key('open', 'r' .. ref), 0, -1, 'WITHSCORES')
for index = 1, #open, 2 do
  local state = call('HGET', key('event', id_of(open[index])), 'state')
  if state and (state ~= 'scheduled' or tonumber(open[index + 1]) <= now) then return 0 end
end
write_snapshot(ref, 1, now, input.snapshot)
return 1
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

export const pruneSnapshots = `${evenIfFull}
local pruned, skipped = 0, 0
repeat
  local refs = call('ZRANGEBYSCORE', SEEN, '-inf', now - input.age, 'LIMIT', skipped, input.limit - pruned)
  for _, ref in ipairs(refs) do
    local record = 'r' .. ref
    if call('ZSCORE', DUE, record) then skipped = skipped + 1
    else
      forget_snapshot(ref)
      -- From now on, the record's timers that have fired are pruned.
      for _, id in ipairs(call('ZRANGE', key('of', record), 0, -1)) do
        local v = call('HMGET', key('event', id), 'source', 'state', 'ended')
        if v[1] == 'timer' and v[2] == 'done' then call('ZADD', key('ended', 'done'), v[3], id) end
      end
      pruned = pruned + 1
    end
  end
until #refs == 0 or pruned == input.limit
return pruned
`;

export const restore = `
for _, new in ipairs(input.snapshots) do
  if call('HEXISTS', SNAPSHOTS, new.ref) == 0 then write_snapshot(new.ref, new.sequence, new.seenAt, new.snapshot) end
end
for _, new in ipairs(input.events) do
  if call('EXISTS', key('event', new.id)) == 0 then
    insert(new, new.state, new.due, new.reason, new.received)
    note_received(new.source, new.received)
  end
end
return answer(1)
`;

export const setBack = `${evenIfFull}
local function repair(event)
  local due, record = due_of(event), event.record
  if event.state == 'processing' then
    local duration = tonumber(call('HGET', key('record', record), 'duration'))
    if due and duration and due > now + duration then hold(record, event, now + duration, duration) end
  else
    local follows = event.state ~= 'scheduled' or event.source == 'recheck'
    if follows and due and due > now then move(event, event.state, now) end
    -- A record that stays behind others after a settle was due at the settle's time, by the old clock.
    refresh(record, 0)
  end
end
for _, state in ipairs({ 'processing', 'pending', 'retrying', 'scheduled' }) do
  for _, id in ipairs(call('ZRANGE', key('state', state), 0, -1)) do
    local event = load(id)
    if event then repair(event) else forget(id) end
  end
end
return answer(1)
`;
