import { createHash } from "node:crypto";
import { ending, guard, prelude } from "./redis-locks.ts";
import * as upkeep from "./redis-upkeep-scripts.ts";

/** The scripts that add, claim, renew and settle events. Each comment lists the arguments from `ARGV[3]` on. */

/**
 * Argument: the schema version, which the script writes if Redis has none. Returns the schema version in Redis, the
 * prefix of the keys, and 1 if stayhook 0.1 wrote the keys. PUBLISH comes first, so that a user without the right to
 * publish gets an error before the first write.
 */
const start = `
call('PUBLISH', base .. ':wake', '')
local v = call('HMGET', base .. ':meta', 'schema', 'format')
if not v[1] and not v[2] then call('HSET', base .. ':meta', 'schema', ARGV[3]) end
return { v[1] or ARGV[3], base, not v[1] and v[2] and 1 or 0 }
`;

/**
 * Adds one or more events. Arguments of each event: id, flags, ref, topic, notification, traceparent, ms until the event
 * is due, source, timestamp. The five arguments after the flags are optional. Their letters, in this order, are `r`, `t`,
 * `n`, `p` and `d`. `flags` contains the letters of the set arguments. Returns a list with a result for each event.
 */
const add = `
local newest = false

local function add(at)
  local id, given, source, key = ARGV[at], ARGV[at + 1], ARGV[at + 7], event_key(ARGV[at])
  local function has(letter) return string.find(given, letter, 1, true) end
  local ref = has('r') and ARGV[at + 2] or false
  local known = call('HMGET', key, 'seq', 'ref')
  if known[1] then return known[2] == ref and 'duplicate' or 'conflict' end
  local event = { id = id, ref = ref, seq = call('HINCRBY', base .. ':meta', 'seq', 1), state = 'pending' }
  local fields = { 'seq', event.seq, 'state', 'pending', 'received', now, 'time', ARGV[at + 8] }
  local function set(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if source == 'webhook' then newest = true else set('source', source) end
  if ref then set('ref', ref) end
  if has('t') then set('topic', ARGV[at + 3]) end
  if has('p') then set('traceparent', ARGV[at + 5]) end
  if has('d') then
    event.due = now + tonumber(ARGV[at + 6])
    set('due', event.due)
    set('began', now)
  end
  call('HSET', key, unpack(fields))
  if has('n') then call('SET', notification_key(id), ARGV[at + 4]) end
  call('ZADD', state_key('pending'), event.seq, id)
  if ref then call('ZADD', base .. ':of:' .. ref, event.seq, event.seq) end
  local lock = lock_of(event)
  if event.due and event.due > now then enter_later(lock, event) else enter_due(lock, event) end
  if not event.due then lock.wait, lock.wait_began = 0, 0 end
  save(lock)
  return 'added'
end

local results = {}
for at = 3, #ARGV, 9 do results[#results + 1] = add(at) end
if newest then call('HSET', base .. ':meta', 'newest', now) end
return answer(results)
`;

/**
 * Arguments: limit, lease duration in ms, key of the claim, order, worker, event id, keys of lost claims. Worker and
 * event id may be empty. A lost claim got no answer, so no process works on its events, and this script releases them.
 */
const claim = `${ending}
local limit, duration, name, order = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local worker, only = ARGV[7], ARGV[8]
call('DEL', base .. ':none')

if ARGV[9] then
  local lost = {}
  for index = 9, #ARGV do lost[ARGV[index]] = true end
  for _, id in ipairs(call('ZRANGE', state_key('processing'), 0, -1)) do
    local event = load(id)
    local lock = lock_of(event)
    if lock.event == id and lost[string.match(lock.lease, '^[^:]*')] then release(event, lock) end
  end
end

local claims = {}
-- Returns the fields from before the claim. toClaim adds the changes of the claim.
local function lease(lock, id, next_pending)
  local fields, v = call('HGETALL', event_key(id)), {}
  for index = 1, #fields, 2 do v[fields[index]] = fields[index + 1] end
  local event = event_of(id, v.seq, v.ref, v.state, v.received, v.due, v.attempts, v.outages, v.outage_at, v.reason,
    v.lease_end, v.claimed, v.h, v.began)
  if next_pending then
    call('ZREM', line_key('pending', lock), member_of(event))
    lock.pending = next_pending
  else leave_lines(lock, event) end
  local token = name .. ':' .. #claims
  if event.state == 'processing' then
    local rest = string.format('%d,"lost"]', max(0, event.lease_end - tonumber(event.claimed)))
    set_state(event, 'processing', entry_of(event, rest))
  end
  local lease_end, attempts = now + duration, event.attempts + 1
  if worker == '' then set_state(event, 'processing', 'attempts', attempts, 'lease_end', lease_end, 'claimed', now)
  else set_state(event, 'processing', 'attempts', attempts, 'lease_end', lease_end, 'claimed', now, 'w' .. event.entries, worker) end
  lock.lease, lock.event, lock.lease_end, lock.ended = token, id, lease_end, 0
  save(lock)
  local record = event.ref and call('HGET', base .. ':records', event.ref) or false
  claims[#claims + 1] = { id, fields, call('GET', notification_key(id)), record, token }
end

local function lease_first(lock)
  if lock.pending > 0 and (lock.retries == 0 or lock.pending < lock.retries) then
    local two = call('ZRANGE', line_key('pending', lock), 0, 1, 'WITHSCORES')
    lease(lock, id_of(two[1]), tonumber(two[4]) or 0)
  else
    lease(lock, id_of(call('ZRANGE', line_key('retries', lock), 0, 0)[1]))
  end
end

local function pending()
  if #claims >= limit then return end
  local command, from, to = 'ZRANGEBYSCORE', '-inf', '+inf'
  if order == 'newest' then command, from, to = 'ZREVRANGEBYSCORE', to, from end
  local names = call(command, base .. ':ready:pending', from, to, 'LIMIT', 0, limit - #claims)
  for _, each in ipairs(names) do lease_first(lock_named(each)) end
end

local function retries()
  if #claims >= limit then return end
  local members = call('ZRANGE', base .. ':ready:retries', 0, limit - #claims - 1)
  for _, member in ipairs(members) do lease_first(lock_named(id_of(member))) end
end

if only == '' then
  for _, each in ipairs(call('ZRANGEBYSCORE', base .. ':ready:later', '-inf', now, 'LIMIT', 0, 200)) do
    save(lock_named(each))
  end
  for _, each in ipairs(call('ZRANGEBYSCORE', base .. ':ready:began', '(' .. now, '+inf', 'LIMIT', 0, 200)) do
    save(lock_named(each))
  end
  if order == 'retries' then retries() end
  pending()
  retries()
else
  local event = load(only)
  if event and event.state ~= 'done' and event.state ~= 'parked' then
    local lock = lock_of(event)
    advance(lock)
    local waits = lock.later > 0 and tonumber(call('ZSCORE', line_key('later', lock), member_of(event))) or 0
    if max(lock.wait, lock.lease_end, waits) <= now then lease(lock, only) else save(lock) end
  end
end
return answer({ now, claims })
`;

/** Arguments: lease duration in ms, then id and lease of each claim. Returns the indexes of the renewed claims. */
const renew = `${ending}
local lease_end, renewed = now + tonumber(ARGV[3]), {}
call('DEL', base .. ':none')
for index = 4, #ARGV, 2 do
  local event, lock = held(ARGV[index], ARGV[index + 1])
  if event then
    if lock.ended == 1 then leave_lines(lock, event) end
    call('HSET', event_key(event.id), 'lease_end', lease_end)
    lock.lease_end, lock.ended = lease_end, 0
    save(lock)
    renewed[#renewed + 1] = (index - 4) / 2
  end
end
return answer(renewed)
`;

/**
 * Arguments: id, lease, idempotency key, state, flags, type, snapshot, reason, result of `packEntry`, ms to wait,
 * and 1 if the attempt counts. Flags: `t` if there is a type, `s` if there is a snapshot, `c` if the snapshot changed.
 */
const settle = `${ending}
local id, name, state, given, reason = ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[10]
local key = event_key(id)
local event, lock = held(id, ARGV[4])
-- If the keys are equal, this call repeats a call whose answer was lost. The event is settled already.
if not event then return answer(call('HGET', key, 'settled') == name and 1 or 0) end

if state == 'released' then
  release(event, lock)
  call('HSET', key, 'settled', name)
  return answer(1)
end

call('HDEL', key, 'lease_end', 'claimed')
if lock.ended == 1 then leave_lines(lock, event) end
local changes = { 'settled', name, entry_of(event, ARGV[11]) }
local function set(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end
if string.find(given, 't') then set('type', ARGV[8]) end
if state == 'retrying' then
  local wait = now + tonumber(ARGV[12])
  if ARGV[13] == '1' then
    call('HDEL', key, 'outages', 'outage_at')
    event.due = wait
  else
    set('attempts', event.attempts - 1)
    set('outages', event.outages + 1)
    set('outage_at', event.outage_at or now)
    event.due = now
    lock.wait, lock.wait_began, lock.began = wait, now, now
  end
  set_state(event, state, 'reason', reason, 'due', event.due, 'began', now, unpack(changes))
  if event.due > now then enter_later(lock, event) else enter_due(lock, event, event.due) end
else
  finish(event, state, state == 'parked' and reason or nil, unpack(changes))
end
local seen
if event.ref and string.find(given, 's') then
  local records = base .. ':records'
  local known = call('HGET', records, event.ref)
  local sequence = known and tonumber(string.match(known, '^%d+')) or 0
  if not known or string.find(given, 'c') then sequence = sequence + 1 end
  call('HSET', records, event.ref, string.format('%d:%d:', sequence, now) .. ARGV[9])
  if not known then call('ZADD', base .. ':refs', 0, event.ref) end
  seen = now
end
unlock(lock, seen)
return answer(1)
`;

const nextDue = `
if call('EXISTS', base .. ':ready:pending', base .. ':ready:retries') > 0 then return 0 end
if #call('ZRANGEBYSCORE', base .. ':ready:began', '(' .. now, '+inf', 'LIMIT', 0, 1) > 0 then return 0 end
local first = call('ZRANGE', base .. ':ready:later', 0, 0, 'WITHSCORES')
return first[1] and max(0, tonumber(first[2]) - now) or false
`;

const bodies = { start, add, claim, renew, settle, nextDue, ...upkeep };

export type ScriptName = keyof typeof bodies;

export interface Script {
  readonly text: string;
  /** The SHA-1 of the text, for EVALSHA. */
  readonly sha: string;
}

export const scripts = Object.fromEntries(
  Object.entries(bodies).map(([name, body]) => {
    const text = prelude + (name === "start" ? "" : guard) + body;
    return [name, { text, sha: createHash("sha1").update(text).digest("hex") }];
  }),
) as unknown as Readonly<Record<ScriptName, Script>>;
