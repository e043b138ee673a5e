/**
 * Every script begins with this text. `KEYS[1]` is the prefix in braces, so that all keys are in one hash slot. The
 * scripts make the other keys from the prefix. `ARGV[1]` is empty, or the time that a test has set. `ARGV[2]` is the
 * handle of the calling store instance, or empty for the trial of `doctor`. `ARGV[3]` is the script's input as JSON. Times are epoch ms.
 *
 * `<record>` is `r` and a ref, or `e` and the id of an event without a ref.
 *
 * | key | value |
 * |---|---|
 * | `:meta` | hash: `schema`, `seq` (the last arrival number), `received` (when the newest webhook event was added) |
 * | `:values` | hash: for each key of `setMeta`, `<set at>:<value>` |
 * | `:due` | sorted set: records by the time when they can next be claimed. During a lease: the end of the lease |
 * | `:record:<record>` | hash: `lease`, `lease_end`, `event` and `duration` of the lease. It exists until the attempt ends |
 * | `:open:<record>` | sorted set: arrival number and id of each event that is not done, by due time. Parked: `inf` |
 * | `:of:<record>` | sorted set: ids of a ref's events by arrival number |
 * | `:account:<account>` | sorted set: ids of the events of an account by arrival number |
 * | `:event:<id>` | hash: the event. Its due time is in `:open:<record>`. `h` is the length of its history, `h0`, `h1` and so on are the entries, and `w0`, `w1` and so on the workers. A field of more than 64 bytes would quadruple the memory |
 * | `:notification:<id>` | string: the notification |
 * | `:state:<state>` | sorted set: ids by arrival number |
 * | `:since` | sorted set: ids of pending, retrying and scheduled events by `first_due`: when they were first due or replayed |
 * | `:ended:done`, `:ended:parked`, `:ended:parked:<reason>` | sorted sets: ids by end time |
 * | `:lost:<token>` | string: the claim with this token got no answer, and was given back. It must not lease anything |
 * | `:snapshots` | hash: for each ref, `<sequence>:<seenAt>:<snapshot as JSON>` |
 * | `:ledgers` | hash: for each ref, its ledger |
 * | `:refs` | sorted set: the refs of `:snapshots` and `:ledgers` in lexicographic order |
 * | `:seen` | sorted set: the refs of `:snapshots` by `seenAt`, but of those without a ledger, which `pruneSnapshots` keeps |
 * | `:gone` | set: ids of events whose key somebody deleted, until a claim tells them |
 */
export const prelude = `
local base, call, max, min = KEYS[1], redis.call, math.max, math.min
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local input, sooner, newest = cjson.decode(ARGV[3]), false, 0

-- Tells the other store instances. The trial of doctor has no handle: it only asks for the right, which Redis 7 can tell.
local function publish(handle)
  local channel = string.match(base, '^[^}]*}') .. ':wake'
  if ARGV[2] ~= '' then call('PUBLISH', channel, handle)
  elseif redis.acl_check_cmd and not redis.acl_check_cmd('PUBLISH', channel, handle) then
    error({ err = 'NOPERM PUBLISH to the channel ' .. channel })
  end
end

local DUE, SINCE, SNAPSHOTS, SEEN = base .. ':due', base .. ':since', base .. ':snapshots', base .. ':seen'
local LEDGERS, REFS = base .. ':ledgers', base .. ':refs'
local function key(kind, name) return base .. ':' .. kind .. ':' .. name end
local function id_of(member) return string.sub(member, 15) end

local function load(id)
  local v = call('HMGET', key('event', id), 'seq', 'record', 'state', 'received', 'reason', 'source', 'time', 'attempts',
    'claimed', 'lease', 'h', 'first_due')
  if not v[1] then return nil end
  return {
    id = id, seq = v[1], record = v[2], state = v[3], received = tonumber(v[4]), reason = v[5], source = v[6], time = v[7],
    attempts = tonumber(v[8]) or 0, claimed = v[9], lease = v[10], entries = tonumber(v[11]) or 0, first_due = tonumber(v[12]),
    member = string.format('%014d', v[1]) .. id
  }
end

local function due_time(new) return new.at or now + new.wait end
local function due_of(event) return tonumber(call('ZSCORE', key('open', event.record), event.member)) end

-- Returns a RowReply.
local function row(id, ...)
  return { id, call('HGETALL', key('event', id)), call('GET', key('notification', id)), ... }
end

local function leave_ended(event)
  call('ZREM', key('ended', event.state), event.id)
  if event.state == 'parked' then call('ZREM', key('ended:parked', event.reason), event.id) end
end

-- Moves an event to a state. A done or parked event has no due time. Without a reason, the event keeps its reason.
-- Further arguments: fields to set and their values.
local function move(event, state, due, reason, ...)
  local id, was = event.id, event.state
  if was ~= state then
    if was then call('ZREM', key('state', was), id) end
    call('ZADD', key('state', state), event.seq, id)
  end
  if was == 'done' or was == 'parked' then leave_ended(event) end
  event.state, event.reason = state, reason or event.reason
  local fields = { 'state', state, ... }
  local function set(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if reason then set('reason', reason) end
  if not due or state == 'processing' then call('ZREM', SINCE, id)
  else call('ZADD', SINCE, event.first_due, id) end
  if not due then
    local ended = event.ended or now
    set('ended', ended)
    call('ZADD', key('ended', state), ended, id)
    if state == 'parked' then call('ZADD', key('ended:parked', event.reason), ended, id) end
  end
  if state == 'done' then call('ZREM', key('open', event.record), event.member)
  else call('ZADD', key('open', event.record), due or 'inf', event.member) end
  call('HSET', key('event', id), unpack(fields))
end

-- Returns when the next claim can succeed. False if no event waits.
local function next_due()
  local first = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  return first and tonumber(first) or false
end

-- Returns a function that tells whether the key of a record begins with one of some texts. It looks up one text for each
-- length that these texts have, of those with the same first byte.
local function begins(texts)
  local known, lengths = {}, {}
  for _, text in ipairs(texts) do
    local first, length = string.byte(text), #text
    lengths[first] = lengths[first] or {}
    lengths[first][length] = true
    known[text] = true
  end
  return function(record)
    for length in pairs(lengths[string.byte(record, 2)] or {}) do
      if known[string.sub(record, 2, length + 1)] then return true end
    end
    return false
  end
end

local function takes_of(restriction)
  local is_out, is_in = begins(restriction.except or {}), restriction.only and begins(restriction.only)
  return function(record) return not is_out(record) and (not is_in or is_in(record)) end
end

-- Returns the records that are due first, up to a time, of those that a restriction takes. The search begins after a
-- place, and examines at most 10,000 records, because Redis runs no other command meanwhile. Returns where to go on, if
-- there may be more.
local function look_for(restriction, after, to, limit)
  local found, from, takes, count = {}, 0, takes_of(restriction), call('ZCOUNT', DUE, '-inf', to)
  if after then
    -- The record may have moved since.
    local is_there = call('ZSCORE', DUE, after[1]) == after[2]
    from = is_there and call('ZRANK', DUE, after[1]) + 1 or call('ZCOUNT', DUE, '-inf', '(' .. after[2])
  end
  local last = min(from + 10000, count) - 1
  for start = from, last, 1000 do
    local records = call('ZRANGE', DUE, start, min(start + 999, last))
    for _, record in ipairs(records) do
      if takes(record) then
        found[#found + 1] = record
        if #found == limit then return found end
      end
    end
    if start + 1000 > last and last < count - 1 then
      return found, { records[#records], call('ZSCORE', DUE, records[#records]) }
    end
  end
  return found
end

local function is_leased(record) return call('HEXISTS', key('record', record), 'lease_end') == 1 end
local function end_lease(record) call('DEL', key('record', record)) end

-- Sets when the lease of a record ends.
local function hold(record, event, lease_end, duration)
  call('HSET', key('record', record), 'lease_end', lease_end, 'duration', duration)
  call('ZADD', key('open', record), lease_end, event.member)
  call('ZADD', DUE, lease_end, record)
end

-- Makes a record due at a time, if it is not due earlier. A lease keeps its own time.
local function become_due(record, due)
  if is_leased(record) then return end
  if call('ZADD', DUE, 'LT', 'CH', due, record) == 1 then sooner = true end
end

-- Makes a record due when the first of its events is due, but not before from. A lease keeps its own time. Returns
-- whether the record has an event that is or becomes due.
local function refresh(record, from)
  if is_leased(record) then return true end
  local due = call('ZRANGE', key('open', record), 0, 0, 'WITHSCORES')[2]
  if not due or due == 'inf' then
    call('ZREM', DUE, record)
    return false
  end
  call('ZADD', DUE, max(tonumber(due), from), record)
  sooner = true
  return true
end

-- Returns the key of the events of a record's account, or nil. A slash that follows a colon is part of a booking's code.
local function account_key(record)
  local account = string.match(record, '^[re]([%w_.-]+)/')
  return account and key('account', account)
end

-- Writes a new event. Its fields are those of TypeScript.
local function insert(new, state, due, reason, received, first_due)
  local event = { id = new.id, record = new.record, seq = call('HINCRBY', base .. ':meta', 'seq', 1) }
  event.member, event.first_due, event.ended = string.format('%014d', event.seq) .. new.id, first_due, new.ended
  if new.notification then call('SET', key('notification', new.id), new.notification) end
  if string.sub(new.record, 1, 1) == 'r' then call('ZADD', key('of', new.record), event.seq, new.id) end
  local account = account_key(new.record)
  if account then call('ZADD', account, event.seq, new.id) end
  move(event, state, due, reason, 'seq', event.seq, 'record', new.record, 'received', received,
    'first_due', first_due, 'lease', new.token or '', unpack(new.fields))
  if due then become_due(new.record, due) end
end

-- Deletes an event. Call refresh for its record afterwards.
local function drop(event)
  local id, record = event.id, event.record
  if event.state == 'done' or event.state == 'parked' then leave_ended(event) end
  call('ZREM', key('state', event.state), id)
  call('ZREM', SINCE, id)
  call('ZREM', key('open', record), event.member)
  call('ZREM', key('of', record), id)
  local account = account_key(record)
  if account then call('ZREM', account, id) end
  call('UNLINK', key('event', id), key('notification', id))
end

-- Removes what is left of an event whose key was evicted or deleted by hand. Call refresh for its record afterwards.
local function forget(id, record, member)
  for _, state in ipairs({ 'scheduled', 'pending', 'processing', 'retrying', 'done', 'parked' }) do
    call('ZREM', key('state', state), id)
  end
  call('ZREM', SINCE, id)
  call('ZREM', key('ended', 'done'), id)
  call('ZREM', key('ended', 'parked'), id)
  if record then
    if member then call('ZREM', key('open', record), member) end
    call('ZREM', key('of', record), id)
    local account = account_key(record)
    if account then call('ZREM', account, id) end
    if call('HGET', key('record', record), 'event') == id then end_lease(record) end
  end
  call('UNLINK', key('notification', id))
  call('SADD', base .. ':gone', id)
end

local function write_snapshot(ref, sequence, seen, snapshot)
  if call('HSET', SNAPSHOTS, ref, string.format('%d:%d:', sequence, seen) .. snapshot) == 1 then
    call('ZADD', REFS, 0, ref)
  end
  if call('HEXISTS', LEDGERS, ref) == 0 then call('ZADD', SEEN, seen, ref) end
end

-- An empty text deletes the ledger.
local function write_ledger(ref, ledger)
  if ledger ~= '' then
    call('HSET', LEDGERS, ref, ledger)
    call('ZADD', REFS, 0, ref)
    call('ZREM', SEEN, ref)
  elseif call('HDEL', LEDGERS, ref) == 1 then
    local kept = call('HGET', SNAPSHOTS, ref)
    if kept then call('ZADD', SEEN, string.match(kept, '^%d+:(%d+):'), ref) else call('ZREM', REFS, ref) end
  end
end

local function forget_snapshot(ref)
  call('HDEL', SNAPSHOTS, ref)
  if call('HEXISTS', LEDGERS, ref) == 0 then call('ZREM', REFS, ref) end
  call('ZREM', SEEN, ref)
end

-- Returns the value of a record in a hash by ref. An event without a record has none.
local function of_ref(hash, record)
  return string.sub(record, 1, 1) == 'r' and call('HGET', hash, string.sub(record, 2))
end

local function note_received(source, received)
  if source == 'webhook' then newest = max(newest, received) end
end

-- Returns the result. Notes when the newest webhook event was received. If an event may be due sooner than before, tells
-- the other store instances.
local function answer(result)
  if newest > 0 and tonumber(call('HGET', base .. ':meta', 'received') or 0) < newest then
    call('HSET', base .. ':meta', 'received', newest)
  end
  if sooner then publish(ARGV[2]) end
  return result
end
`;

/** Every script except `start` checks that the keys exist. Keys may be missing while a cluster moves the slot. */
export const guard = `
if call('EXISTS', base .. ':meta') == 0 then return redis.error_reply('NOMETA ' .. base .. ':meta is missing') end
`;

/** Begins a script that must work even if the memory is full. Redis checks it at a first write that is no delete. */
export const evenIfFull = `call('DEL', base .. ':none')
`;

export const expiring = `
-- Ends a lease that has run out: gives its event a lost entry, and lets the event wait again.
local function expire(record)
  local v = call('HMGET', key('record', record), 'lease_end', 'event')
  local ended, event = tonumber(v[1]), v[2] and load(v[2])
  if not ended then return end
  if not event then return end_lease(record) end
  local entry = string.format('[%d,%d,"lost"]', event.claimed, max(0, ended - event.claimed))
  move(event, 'retrying', ended, nil, 'lease', '', 'h' .. event.entries, entry, 'h', event.entries + 1)
  end_lease(record)
end
`;

export const adding = `
local function set_notification(id, notification)
  if notification then call('SET', key('notification', id), notification)
  else call('DEL', key('notification', id)) end
end

-- Decides about a known event as outcomes.ts does. Returns the answer of add, or nil if the addition replaces the event.
local function keep(event, addition)
  local replace = addition.replace
  if event.record ~= addition.record then return 'conflict' end
  local moved = replace == 'moved' and event.time ~= addition.time
  if event.state == 'processing' and (due_of(event) or 0) > now then
    return (moved or replace == 'ended') and 'busy' or 'duplicate'
  end
  local ended = replace == 'ended' and (event.state == 'done' or event.state == 'parked')
  if not moved and not ended then return 'duplicate' end
end

local function replace(event, addition, due)
  if event.state == 'processing' then
    expire(event.record)
    event = load(event.id)
  end
  event.first_due = due
  set_notification(event.id, addition.notification)
  -- The history of a timer shows the attempts of one firing.
  if addition.source == 'timer' then call('HSET', key('event', event.id), 'h', 0) end
  move(event, addition.state, due, '', 'received', now, 'first_due', due, 'attempts', '', 'outages', '', 'outage_at', '',
    'failures', '', 'refusals', '', 'replayed', '', unpack(addition.fields))
  refresh(event.record, 0)
end

local function add(addition)
  local event, due = load(addition.id), due_time(addition)
  -- An earlier call of this addition got no answer.
  if event and addition.token and event.lease == addition.token and event.record == addition.record then return 'added' end
  local kept = event and keep(event, addition)
  if kept then return kept end
  if event then replace(event, addition, due) else insert(addition, addition.state, due, nil, now, due) end
  note_received(addition.source, now)
  return 'added'
end
`;

export const removing = `
-- Deletes events of a record, but of the done ones only timers, no event in work, and not the event own. Returns their number.
local function remove(record, what, own)
  local removed, ids = 0, what
  if what == 'timers' then
    ids = call('ZRANGE', key('of', record), 0, -1)
  end
  for _, id in ipairs(ids) do
    local event = id ~= own and load(id)
    local is_asked = event and event.record == record and (what ~= 'timers' or event.source == 'timer')
    if is_asked and (event.state ~= 'done' or event.source == 'timer') and not (event.state == 'processing' and (due_of(event) or 0) > now) then
      if event.state == 'processing' then end_lease(record) end
      drop(event)
      removed = removed + 1
    end
  end
  return removed
end
`;
