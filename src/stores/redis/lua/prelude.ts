/**
 * What every script begins with. `KEYS[1]` is the prefix in braces, so that all keys are in one hash slot; the
 * rest are made from it. `ARGV[1]` is the time where a test says it, `ARGV[2]` the handle that calls.
 *
 * | key | |
 * |---|---|
 * | `:meta` | hash: `format`; `seq`, `ended`: counters of arrivals and ends |
 * | `:event:<id>` | hash, see `load`; times are epoch ms |
 * | `:notification:<id>` | its JSON text, apart: with it, Redis would keep the hash in four times the space |
 * | `:state:<state>` | sorted set of ids by arrival |
 * | `:ended:done`, `:ended:parked`, `:ended:parked:<reason>` | sorted sets of ids by end |
 * | `:lock:<lock>` | hash of a record that something waits for, or holds; `ref:<ref>`, or `event:<id>` where there is none |
 * | `:line:pending:<lock>`, `:line:retries:<lock>` | sorted sets of its events, by the time at which each can be claimed; in process: by the end of its lease |
 * | `:ready:pending`, `:ready:retries` | sorted sets of locks, by the time at which the first in line can be claimed |
 * | `:statuses` | hash by ref: `sequence:seenAt:status` |
 * | `:refs` | its refs in order |
 * | `:seen` | its refs by `seenAt`, but for those with a lock: these are not to be forgotten |
 *
 * Members of lines and of ready sets begin with the event's arrival, so that it decides between equal times.
 */
export const prelude = `
local base, call = KEYS[1], redis.call
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

local function load(id)
  local v = call('HMGET', event_key(id), 'seq', 'ref', 'state', 'due', 'lease_end', 'attempts', 'outages', 'outage_at', 'reason')
  if not v[1] then return nil end
  return {
    id = id, seq = tonumber(v[1]), ref = v[2], state = v[3], due = tonumber(v[4]), lease_end = tonumber(v[5]),
    attempts = tonumber(v[6]) or 0, outages = tonumber(v[7]) or 0, outage_at = tonumber(v[8]), reason = v[9]
  }
end

local function lock_of(event)
  local name = event.ref and ('ref:' .. event.ref) or ('event:' .. event.id)
  local v = call('HMGET', base .. ':lock:' .. name, 'at', 'wait', 'lease', 'event', 'lease_end', 'pending', 'retries')
  return {
    name = name, ref = event.ref, at = tonumber(v[1]), wait = tonumber(v[2]) or 0, lease = v[3] or '', event = v[4] or '',
    lease_end = tonumber(v[5]) or 0, pending = v[6] or '', retries = v[7] or ''
  }
end

local function place(lock, kind)
  local first = call('ZRANGE', line_key(kind, lock), 0, 0, 'WITHSCORES')
  local member, at = '', math.huge
  if first[1] then
    member = string.sub(first[1], 1, 14) .. lock.name
    at = math.max(tonumber(first[2]), lock.wait, lock.lease_end)
  end
  local ready = base .. ':ready:' .. kind
  if lock[kind] ~= '' and lock[kind] ~= member then call('ZREM', ready, lock[kind]) end
  if member ~= '' then call('ZADD', ready, at, member) end
  lock[kind] = member
  return at
end

-- To be called after each change to a lock or to one of its lines.
local function save(lock)
  local at = math.min(place(lock, 'pending'), place(lock, 'retries'))
  local key = base .. ':lock:' .. lock.name
  if at == math.huge then
    call('DEL', key)
    local status = lock.ref and call('HGET', base .. ':statuses', lock.ref)
    if status then call('ZADD', base .. ':seen', string.match(status, '^%d+:(%d+):'), lock.ref) end
    return
  end
  if lock.ref and not lock.at then call('ZREM', base .. ':seen', lock.ref) end
  if at < (lock.at or math.huge) then due_sooner = true end
  lock.at = at
  call('HSET', key, 'at', at, 'wait', lock.wait, 'lease', lock.lease, 'event', lock.event,
    'lease_end', lock.lease_end, 'pending', lock.pending, 'retries', lock.retries)
end

local function set_state(event, state)
  if event.state == state then return end
  call('ZADD', state_key(state), event.seq, event.id)
  call('ZREM', state_key(event.state), event.id)
  call('HSET', event_key(event.id), 'state', state)
  event.state = state
end

-- Where memory is full, Redis refuses a script's first write if that could take more, but none of those behind it. What
-- has begun is to end all the same: its end makes room, and without it a callback would run again.
local function also_when_full() call('DEL', base .. ':none') end

-- The event and its lock, as long as nobody else has taken its record.
local function held(id, lease)
  local event = load(id)
  if not event then return nil end
  local lock = lock_of(event)
  if lock.lease == '' or lock.lease ~= lease or lock.event ~= id then return nil end
  return event, lock
end

local function unlock(lock)
  lock.lease, lock.event, lock.lease_end = '', '', 0
  save(lock)
end

local function release(event, lock)
  local attempts = event.attempts - 1
  set_state(event, attempts == 0 and event.outages == 0 and 'pending' or 'retrying')
  call('HSET', event_key(event.id), 'attempts', attempts)
  local member = member_of(event)
  call('ZREM', line_key('retries', lock), member)
  call('ZADD', line_key(event.state == 'pending' and 'pending' or 'retries', lock), event.due, member)
  unlock(lock)
end

local function replay(event)
  local key, lock = event_key(event.id), lock_of(event)
  if event.state == 'retrying' then
    call('HSET', key, 'due', math.min(event.due, now))
    call('ZADD', line_key('retries', lock), math.min(event.due, now), member_of(event))
  elseif event.state ~= 'pending' then
    call('ZREM', base .. ':ended:' .. event.state, event.id)
    if event.state == 'parked' then call('ZREM', base .. ':ended:parked:' .. event.reason, event.id) end
    call('HDEL', key, 'outages', 'outage_at', 'reason', 'ended')
    call('HSET', key, 'attempts', 0, 'replayed', 1, 'due', now)
    set_state(event, 'pending')
    call('ZADD', line_key('pending', lock), now, member_of(event))
  end
  lock.wait = 0
  save(lock)
end

-- As it is shown: its id, its fields, its notification, and until when its record waits.
local function row(id)
  local fields = call('HGETALL', event_key(id))
  if not fields[1] then return false end
  local ref = call('HGET', event_key(id), 'ref')
  local wait = call('HGET', base .. ':lock:' .. (ref and ('ref:' .. ref) or ('event:' .. id)), 'wait')
  return { id, fields, call('GET', notification_key(id)), wait }
end

-- Tells the other handles, and the caller, that something may be due sooner than it was.
local function answer(result)
  if due_sooner then call('PUBLISH', base .. ':wake', ARGV[2]) end
  return { result, due_sooner and 1 or 0 }
end
`;
