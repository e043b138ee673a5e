import { evenIfFull, removing } from "./redis-lua.ts";

/** The scripts that read, list, change or delete events, snapshots or values. Arguments begin at `ARGV[3]`. */

/** Lua functions for the scripts that list or change events. */
const looking = `
local STATES = { 'scheduled', 'pending', 'processing', 'retrying', 'done', 'parked' }

-- Arguments: the arrival number below which to start or an empty text, how many events to read, the limit, and the
-- filter's fields and values. Returns the ids of matching events, and the arrival number to continue from.
local function look()
  local before, size, limit, filter = arg(), number(), number(), {}
  while ARGV[next_arg] do
    local name = arg()
    filter[name] = arg()
  end
  local to, found = before == '' and '+inf' or ('(' .. before), {}
  local function gather(from)
    local members = call('ZREVRANGEBYSCORE', from, to, '-inf', 'WITHSCORES', 'LIMIT', 0, size)
    for index = 1, #members, 2 do found[#found + 1] = { members[index], tonumber(members[index + 1]) } end
  end
  if filter.eventId then
    local seq = tonumber(call('HGET', key('event', filter.eventId), 'seq'))
    if seq and (before == '' or seq < tonumber(before)) then found[1] = { filter.eventId, seq } end
  elseif filter.ref then gather(key('of', 'r' .. filter.ref))
  else
    for _, state in ipairs(filter.state and { filter.state } or STATES) do gather(key('state', state)) end
  end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  local ids, after, until_ = {}, tonumber(filter.receivedAfter), tonumber(filter.receivedBefore)
  for index = 1, min(size, #found) do
    local v = call('HMGET', key('event', found[index][1]), 'state', 'record', 'type', 'reason', 'source', 'received')
    local received = tonumber(v[6])
    if (not filter.state or v[1] == filter.state) and (not filter.ref or v[2] == 'r' .. filter.ref)
      and (not filter.type or v[3] == filter.type) and (not filter.reason or v[4] == filter.reason)
      and (not filter.source or v[5] == filter.source)
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

/** Argument: event id. */
export const get = `${looking}
return stored(arg())`;

/** Argument: event id. Returns the event's arrival number. */
export const arrival = `return call('HGET', key('event', arg()), 'seq')`;

/** Takes the arguments of the Lua function `look`. */
export const list = `${looking}
local ids, next = look()
local rows = {}
for index, id in ipairs(ids) do rows[index] = stored(id) end
return { rows, next }
`;

/** Arguments: names of claims. Returns a RowReply for each event that these claims have leased. */
export const leasedBy = `
local names, rows = {}, {}
while ARGV[next_arg] do names[arg()] = true end
for _, id in ipairs(call('ZRANGE', key('state', 'processing'), 0, -1)) do
  local name = string.match(call('HGET', key('event', id), 'lease'), '^[^:]*')
  if names[name] then rows[#rows + 1] = row(id, false) end
end
return rows
`;

export const counts = `
local counts = {}
for index, state in ipairs({ 'scheduled', 'pending', 'processing', 'retrying', 'done', 'parked' }) do
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
  if due_of(event) <= now then oldest = min(oldest or now, event.received) end
end
return oldest and now - oldest or false
`;

export const lastReceivedAt = `return call('HGET', base .. ':meta', 'received')`;

/** Argument: ref. */
export const snapshotOf = `return call('HGET', SNAPSHOTS, arg())`;

/** Arguments: ref to continue after, limit. For the first page, the ref is empty. */
export const snapshots = `
local after, limit = arg(), arg()
local refs = call('ZRANGEBYLEX', base .. ':refs', after == '' and '-' or ('(' .. after), '+', 'LIMIT', 0, limit)
if #refs == 0 then return { refs, {} } end
return { refs, call('HMGET', SNAPSHOTS, unpack(refs)) }
`;

/** Argument: key. Returns the value and its age in ms. */
export const getMeta = `
local kept = call('HGET', base .. ':values', arg())
if not kept then return false end
local at, value = string.match(kept, '^(%d+):(.*)$')
return { value, max(0, now - tonumber(at)) }
`;

/** Arguments: key, `+` and the value or an empty text, `+` and the expected value or an empty text. */
export const setMeta = `
local values, name, value, expected = base .. ':values', arg(), arg(), arg()
local kept = call('HGET', values, name)
if (kept and string.gsub(kept, '^%d+:', '+') or '') ~= expected then return 0 end
if value == '' then call('HDEL', values, name)
else call('HSET', values, name, string.format('%d:', now) .. string.sub(value, 2)) end
return 1
`;

/** Arguments: `replay` or `discard`, states with commas, arguments of `look`. Returns the number of changes, and the next `before`. */
export const change = `${evenIfFull}${looking}
local name, states = arg(), {}
for state in string.gmatch(arg(), '%a+') do states[state] = true end
local ids, next = look()
local changed = 0

local function replay(event)
  local due = due_of(event)
  if due and due <= now then return false end
  if event.state == 'done' or event.state == 'parked' then
    move(event, 'pending', now, '', 'attempts', '', 'outages', '', 'outage_at', '', 'replayed', 1)
  else move(event, event.state, now) end
  become_due(event.record, now)
  return true
end

local function discard(event)
  move(event, 'done', nil, 'discarded')
  refresh(event.record, 0)
  return true
end

for _, id in ipairs(ids) do
  local event = load(id)
  local run = name == 'replay' and replay or discard
  if states[event.state] and run(event) then changed = changed + 1 end
end
return answer({ changed, next })
`;

/** Arguments: ref, arguments of \`remove\`. Returns the number of deleted events. */
export const remove = `${evenIfFull}${removing}
local record = 'r' .. arg()
local removed = remove(record)
refresh(record, 0)
tidy(record)
return answer(removed)
`;

/** Argument: ref. Returns the number of deleted events, or -1 if an event of the record is being processed. */
export const erase = `${evenIfFull}
local ref = arg()
local record = 'r' .. ref
if tonumber(call('HGET', key('record', record), 'lease_end') or 0) > now then return -1 end
local ids = call('ZRANGE', key('of', record), 0, -1)
for _, id in ipairs(ids) do drop(load(id)) end
call('DEL', key('record', record))
call('HDEL', SNAPSHOTS, ref)
call('ZREM', base .. ':refs', ref)
call('ZREM', SEEN, ref)
call('ZREM', DUE, record)
return #ids
`;

/** Arguments: ref, snapshot. Returns 1 if the record has this snapshot now, and otherwise 0. */
export const learn = `
local ref, snapshot = arg(), arg()
local known = call('HGET', SNAPSHOTS, ref)
if known then
  local sequence, kept = string.match(known, '^(%d+):%d+:(.*)$')
  if kept ~= snapshot then return 0 end
  write_snapshot(ref, sequence, now, snapshot)
  return 1
end
local open = call('ZRANGE', key('open', 'r' .. ref), 0, -1, 'WITHSCORES')
for index = 1, #open, 2 do
  local state = call('HGET', key('event', id_of(open[index])), 'state')
  if state ~= 'scheduled' or tonumber(open[index + 1]) <= now then return 0 end
end
write_snapshot(ref, 1, now, snapshot)
return 1
`;

/**
 * Arguments: state, reason or an empty text, minimum age in ms, limit. Returns how many events it deleted and how many it
 * read. Takes a timer that its record's snapshot keeps out of `:ended:done`, so that no later call reads the timer.
 */
export const prune = `${evenIfFull}
local state, reason, age, limit, pruned = arg(), arg(), number(), arg(), 0
local ended = reason == '' and key('ended', state) or key('ended:parked', reason)
local ids = call('ZRANGEBYSCORE', ended, '-inf', now - age, 'LIMIT', 0, limit)
for _, id in ipairs(ids) do
  local event = load(id)
  local is_timer = state == 'done' and event.source == 'timer'
  if is_timer and call('HEXISTS', SNAPSHOTS, string.sub(event.record, 2)) == 1 then call('ZREM', ended, id)
  else
    drop(event)
    tidy(event.record)
    pruned = pruned + 1
  end
end
return { pruned, #ids }
`;

/**
 * Arguments: minimum age in ms, how many records earlier calls have skipped, limit. Returns how many snapshots it
 * deleted and how many it read.
 */
export const pruneSnapshots = `${evenIfFull}
local age, skipped, limit, pruned = number(), arg(), arg(), 0
local refs = call('ZRANGEBYSCORE', SEEN, '-inf', now - age, 'LIMIT', skipped, limit)
for _, ref in ipairs(refs) do
  local record = 'r' .. ref
  if not call('ZSCORE', DUE, record) then
    call('ZREM', SEEN, ref)
    call('ZREM', base .. ':refs', ref)
    call('HDEL', SNAPSHOTS, ref)
    tidy(record)
    -- From now on, the record's timers that have fired are pruned.
    for _, id in ipairs(call('ZRANGE', key('of', record), 0, -1)) do
      local v = call('HMGET', key('event', id), 'source', 'state', 'ended')
      if v[1] == 'timer' and v[2] == 'done' then call('ZADD', key('ended', 'done'), v[3], id) end
    end
    pruned = pruned + 1
  end
end
return { pruned, #refs }
`;

/**
 * Arguments: the number of snapshots; ref, sequence, \`seenAt\` and snapshot of each; then for each event record, id, state,
 * due time or an empty text, end time or an empty text, reason, history, notification, source, time of arrival, and the
 * number of fields and values, and those.
 */
export const restore = `
for _ = 1, number() do
  local ref, sequence, seen, snapshot = unpack(args(4))
  if call('HEXISTS', SNAPSHOTS, ref) == 0 then write_snapshot(ref, sequence, seen, snapshot) end
end
while ARGV[next_arg] do
  local record, id, state, due, ended, reason, history, notification, source, received = unpack(args(10))
  local fields = args(number())
  if call('EXISTS', key('event', id)) == 0 then
    local seq = call('HINCRBY', base .. ':meta', 'seq', 1)
    local member = string.format('%014d', seq) .. id
    local event = { id = id, record = record, seq = seq, member = member, ended = tonumber(ended), received = received }
    if history ~= '' then call('SET', key('history', id), history) end
    if notification ~= '' then call('SET', key('notification', id), notification) end
    if string.sub(record, 1, 1) == 'r' then call('ZADD', key('of', record), seq, id) end
    move(event, state, tonumber(due), reason, 'seq', seq, 'record', record, 'source', source, 'received', received, unpack(fields))
    note_received(source, tonumber(received))
    if due ~= '' then become_due(record, tonumber(due)) end
  end
end
return answer(1)
`;

/** Arguments: state, arrival number to continue after, limit. Returns the arrival number to continue from, or false. */
export const setBack = `${evenIfFull}
local state, after, limit = arg(), arg(), number()
local found = call('ZRANGEBYSCORE', key('state', state), '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
for index = 1, #found, 2 do
  local event = load(found[index])
  local due = due_of(event)
  if state == 'processing' then
    local duration = tonumber(call('HGET', key('record', event.record), 'duration'))
    if due > now + duration then hold(event.record, event, now + duration, duration) end
  elseif state ~= 'scheduled' or event.source == 'recheck' then
    if due > now then move(event, state, now) end
    refresh(event.record, 0)
  end
end
return answer(#found == 2 * limit and found[#found] or false)
`;
