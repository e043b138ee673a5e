import { HISTORY_LENGTH } from "../base-store.ts";

/**
 * Every script begins with this text. `KEYS[1]` is the prefix in braces, so that all keys are in one hash slot. The
 * scripts make the other keys from the prefix. `ARGV[1]` is empty, or the time that a test has set. `ARGV[2]` is the
 * id of the calling store instance. Times are epoch ms.
 *
 * | key | value |
 * |---|---|
 * | `:meta` | hash: `schema`, `seq` (the last arrival number), `newest` (when the newest webhook event was added) |
 * | `:values` | hash: for each key of `setMeta`, `<set at>:<value>` |
 * | `:event:<id>` | hash: the event. `load` reads most of its fields, and `entry_of` writes its history |
 * | `:notification:<id>` | string: notification as JSON. As a field, it would quadruple the memory of `:event:<id>` |
 * | `:state:<state>` | sorted set: event ids by arrival number |
 * | `:of:<ref>` | sorted set: the arrival numbers of a record's events |
 * | `:ended:done`, `:ended:parked`, `:ended:parked:<reason>` | sorted sets: arrival numbers by end time |
 * | `:lock:<lock>` | string: a record's packed queue state. `<lock>` is `ref:<ref>`, or `event:<id>` without a ref |
 * | `:line:pending:<lock>` | sorted set: the record's due pending events by arrival number |
 * | `:line:retries:<lock>` | sorted set: due retrying events and events with an ended lease, by arrival number |
 * | `:line:due:<lock>` | sorted set: the events of `:line:retries` by the time when they became due |
 * | `:line:later:<lock>` | sorted set: the record's waiting events by the time when they become due |
 * | `:ready:pending` | sorted set: claimable locks by the arrival number of their first due pending event |
 * | `:ready:retries` | sorted set: claimable locks by the time when their first event in `:line:due` became ready |
 * | `:ready:later` | sorted set: locks by the time when a claim must update them |
 * | `:ready:began` | sorted set: locks by start of the last wait. A future start shows that the clock was set back |
 * | `:records` | hash: for each ref, `<sequence>:<seenAt>:<snapshot as JSON>` |
 * | `:refs` | sorted set: the refs of `:records` in lexicographic order |
 * | `:seen` | sorted set: refs of `:records` without a lock, by `seenAt`. `pruneRecords` deletes only these records |
 */
export const prelude = `
local base, call, max, min = KEYS[1], redis.call, math.max, math.min
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local due_sooner = false

local function event_key(id) return base .. ':event:' .. id end
local function notification_key(id) return base .. ':notification:' .. id end
local function state_key(state) return base .. ':state:' .. state end
local function line_key(kind, lock) return base .. ':line:' .. kind .. ':' .. lock.name end
local function member_of(event) return string.format('%014d', event.seq) .. event.id end
local function id_of(member) return string.sub(member, 15) end

local function event_of(id, seq, ref, state, received, due, attempts, outages, outage_at, reason, lease_end, claimed, entries, began)
  return {
    id = id, seq = tonumber(seq), ref = ref, state = state, due = tonumber(due or received), attempts = tonumber(attempts) or 0,
    outages = tonumber(outages) or 0, outage_at = tonumber(outage_at), reason = reason, lease_end = tonumber(lease_end),
    claimed = claimed, entries = tonumber(entries) or 0, began = tonumber(began), is_plain = not (due or outages or reason)
  }
end

local function load(id)
  local v = call('HMGET', event_key(id), 'seq', 'ref', 'state', 'received', 'due', 'attempts', 'outages', 'outage_at',
    'reason', 'lease_end', 'claimed', 'h', 'began')
  if v[1] then return event_of(id, unpack(v)) end
end

-- The state of a lock is one packed value. The metatable has the defaults of missing fields.
local function lock_named(name, ref)
  local packed = call('GET', base .. ':lock:' .. name)
  local lock = packed and cmsgpack.unpack(packed) or {}
  return setmetatable(lock, { __index = {
    name = name, ref = ref or string.match(name, '^ref:(.*)$'), exists = packed,
    was_ready = lock.ready or 0, was_retry = lock.retry or '', was_at = lock.at or 0, was_began = lock.began or 0,
    lease = '', event = '', lease_end = 0, ended = 0, wait = 0, wait_began = 0, began = 0,
    pending = 0, retries = 0, due = 0, later = 0, ready = 0, retry = '', at = 0
  } })
end

local function lock_of(event)
  return lock_named(event.ref and ('ref:' .. event.ref) or ('event:' .. event.id), event.ref)
end

-- lock[kind] is the lowest score in that line, or 0 if the line is empty.
local function enter(lock, kind, member, score)
  call('ZADD', line_key(kind, lock), score, member)
  lock[kind] = lock[kind] == 0 and score or min(lock[kind], score)
end

local function leave(lock, kind, member)
  local key = line_key(kind, lock)
  if lock[kind] == 0 or call('ZREM', key, member) == 0 then return false end
  lock[kind] = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0
  return true
end

-- Ends an event's wait before due, if the clock was set back. If began equals due, the wait has ended by any clock.
local function end_wait(event)
  if event.due > now then call('HSET', event_key(event.id), 'began', event.due) end
end

local function enter_due(lock, event, due)
  local member = member_of(event)
  if event.state == 'pending' then return enter(lock, 'pending', member, event.seq) end
  enter(lock, 'retries', member, event.seq)
  enter(lock, 'due', member, due)
end

local function enter_later(lock, event)
  enter(lock, 'later', member_of(event), event.due)
  lock.began = now
end

local function leave_lines(lock, event)
  local member = member_of(event)
  if leave(lock, 'pending', member) or leave(lock, 'later', member) then return end
  if leave(lock, 'retries', member) then leave(lock, 'due', member) end
end

-- Moves events whose wait or lease has ended to the lines of due events.
local function advance(lock)
  if lock.lease_end > 0 and lock.lease_end <= now and lock.ended == 0 then
    enter_due(lock, load(lock.event), lock.lease_end)
    lock.ended = 1
  end
  local set_back = lock.began > now
  if lock.wait_began > now then lock.wait, lock.wait_began = 0, 0 end
  if lock.later == 0 or not (lock.later <= now or set_back) then return end
  local key = line_key('later', lock)
  local line = set_back and call('ZRANGE', key, 0, -1, 'WITHSCORES')
    or call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 200)
  for index = 1, #line, 2 do
    local event, due = load(id_of(line[index])), tonumber(line[index + 1])
    if due <= now or (event.began or 0) > now then
      call('ZREM', key, line[index])
      end_wait(event)
      enter_due(lock, event, min(due, now))
    end
  end
  lock.later = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0
  if set_back then lock.began = now end
end

local function place(kind, member, score, old)
  if score > 0 then
    if score ~= old then call('ZADD', base .. ':ready:' .. kind, score, member) end
  elseif old > 0 then
    call('ZREM', base .. ':ready:' .. kind, member)
  end
end

-- Call save after each change to a lock or to one of its lines. seen: when this script wrote the record's snapshot, or nil.
local function save(lock, seen)
  advance(lock)
  local free, ref = max(lock.wait, lock.lease_end), lock.ref
  local ready, retry, at = 0, '', lock.later
  if free <= now then
    ready = lock.pending
    if lock.retries > 0 then
      retry = string.sub(call('ZRANGE', line_key('due', lock), 0, 0)[1], 1, 14) .. lock.name
    end
  elseif lock.pending > 0 or lock.retries > 0 or lock.lease_end > 0 then at = free
  elseif at > 0 then at = max(free, at) end
  lock.ready, lock.retry, lock.at = ready, retry, at
  if lock.later == 0 and lock.wait <= now then lock.began = 0 end

  place('pending', lock.name, ready, lock.was_ready)
  place('later', lock.name, at, lock.was_at)
  place('began', lock.name, lock.began, lock.was_began)
  if lock.was_retry ~= '' and lock.was_retry ~= retry then call('ZREM', base .. ':ready:retries', lock.was_retry) end
  if retry ~= '' then call('ZADD', base .. ':ready:retries', max(lock.due, free), retry) end

  local key = base .. ':lock:' .. lock.name
  if ready == 0 and retry == '' and at == 0 then
    if lock.exists then call('DEL', key) end
    if ref and not seen then
      local record = call('HGET', base .. ':records', ref)
      seen = record and string.match(record, '^%d+:(%d+):')
    end
    if seen then call('ZADD', base .. ':seen', seen, ref) end
    return
  end
  call('SET', key, cmsgpack.pack(lock))
  if ref and not lock.exists then call('ZREM', base .. ':seen', ref) end
  local was_at = lock.was_at
  local was_ready = lock.was_ready > 0 or lock.was_retry ~= '' or (was_at > 0 and was_at <= now)
  if not was_ready and (ready > 0 or retry ~= '' or was_at == 0 or at < was_at) then due_sooner = true end
end

-- Further arguments: fields to set and their values.
local function set_state(event, state, ...)
  if event.state ~= state then
    call('ZADD', state_key(state), event.seq, event.id)
    call('ZREM', state_key(event.state), event.id)
  end
  call('HSET', event_key(event.id), 'state', state, ...)
  event.state = state
end

-- Returns the result. If an event may be due sooner than before, tells the caller and the other store instances.
local function answer(result)
  if due_sooner then call('PUBLISH', base .. ':wake', ARGV[2]) end
  return { result, due_sooner and 1 or 0 }
end
`;

/** Every script except `start` checks that the keys exist. Keys may be missing while a cluster moves the slot. */
export const guard = `
if call('EXISTS', base .. ':meta') == 0 then return redis.error_reply('NOMETA ' .. base .. ':meta is missing') end
`;

/**
 * Lua functions that several scripts share. The scripts `claim`, `renew` and `settle` must work even if the memory of
 * Redis is full. Otherwise an attempt could not end, and its callback would run again. Redis checks the memory only
 * at the first write of a script, and always allows a delete. So the first write of these three scripts is a delete.
 */
export const ending = `
-- Returns the fields of a new entry in the event's history. The entries are in 'h0', 'h1' and so on, ${HISTORY_LENGTH} at most. 'h' is
-- the number of entries ever written. The claim has written the entry's worker to 'w0', 'w1' and so on. A field of more
-- than 64 bytes would quadruple the memory of the hash.
local function entry_of(event, rest)
  local count = event.entries
  local oldest = count - ${HISTORY_LENGTH}
  if oldest >= 0 then call('HDEL', event_key(event.id), 'h' .. oldest, 'w' .. oldest) end
  event.entries = count + 1
  return 'h' .. count, '[' .. event.claimed .. ',' .. rest, 'h', count + 1
end

-- Returns the event and its lock, or nil if the lease is no longer held.
local function held(id, lease)
  local event = load(id)
  if not event then return nil end
  local lock = lock_of(event)
  if lock.lease == '' or lock.lease ~= lease or lock.event ~= id then return nil end
  return event, lock
end

local function unlock(lock, seen)
  lock.lease, lock.event, lock.lease_end, lock.ended = '', '', 0, 0
  save(lock, seen)
end

local function release(event, lock)
  local attempts = event.attempts - 1
  call('HDEL', event_key(event.id), 'lease_end', 'claimed', 'w' .. event.entries)
  leave_lines(lock, event)
  set_state(event, attempts == 0 and event.outages == 0 and 'pending' or 'retrying', 'attempts', attempts)
  end_wait(event)
  enter_due(lock, event, event.due)
  unlock(lock)
end

-- Removes a done or parked event from the sorted sets :ended:....
local function leave_ended(event)
  call('ZREM', base .. ':ended:' .. event.state, event.seq)
  if event.state == 'parked' then call('ZREM', base .. ':ended:parked:' .. event.reason, event.seq) end
end

-- Further arguments: fields to set and their values.
local function finish(event, state, reason, ...)
  if not event.is_plain then
    call('HDEL', event_key(event.id), 'due', 'began', 'outages', 'outage_at', 'reason')
  end
  call('ZADD', base .. ':ended:' .. state, now, event.seq)
  if state == 'parked' then call('ZADD', base .. ':ended:parked:' .. reason, now, event.seq) end
  if reason then set_state(event, state, 'ended', now, 'reason', reason, ...) else set_state(event, state, 'ended', now, ...) end
end
`;
