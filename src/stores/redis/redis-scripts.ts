import { createHash } from "node:crypto";
import { adding, evenIfFull, expiring, guard, prelude, removing } from "./redis-lua.ts";
import { FIRST_VERSION, migrations } from "./redis-migrations.ts";
import * as upkeep from "./redis-upkeep-scripts.ts";

/** The scripts that add, claim, renew and settle events. `redis-store.ts` has their inputs and answers. */

/** The version of the keys: 0 if there are none, and 1 if they have none. */
const versioned = `
local found = call('HMGET', base .. ':meta', 'schema', 'format')
local version = tonumber(found[1]) or found[2] and 1 or 0
`;

/**
 * Creates or upgrades the keys, in one step for all processes. PUBLISH comes first, so that a user without the right to
 * publish gets an error before the first write.
 */
const start = `
publish('')
${versioned}
local steps = { ${migrations.map((lua) => `function() ${lua} end`).join(", ")} }
if input.migrate and (version == 0 or version >= ${FIRST_VERSION}) then
  local reached = max(version, ${FIRST_VERSION})
  for index = reached - ${FIRST_VERSION} + 1, #steps do
    steps[index]()
    reached = reached + 1
  end
  if reached > version then call('HSET', base .. ':meta', 'schema', reached) end
  version = reached
end
return { base, version }
`;

const schema = `${versioned}
return { base, version }
`;

/** Deletes the keys of a trial of `doctor`, whose prefix is its own. */
const endTrial = `
local keys = { base .. ':meta', base .. ':values', DUE, SINCE, SNAPSHOTS, SEEN, LEDGERS, REFS, base .. ':gone' }
for _, kind in ipairs({ 'event', 'notification' }) do keys[#keys + 1] = key(kind, input.id) end
for _, kind in ipairs({ 'record', 'open', 'of' }) do keys[#keys + 1] = key(kind, input.record) end
for _, state in ipairs(input.states) do
  keys[#keys + 1] = key('state', state)
  keys[#keys + 1] = key('ended', state)
end
call('DEL', unpack(keys))
`;

const add = `${expiring}${adding}
local answers = {}
for index, addition in ipairs(input) do answers[index] = add(addition) end
return answer(answers)
`;

/**
 * The leases are the name and the arrival number of the event, so that a second run of the script gives no lease twice. A claim with a `restriction` also answers where
 * another run of the script must go on, if this run has not seen all due records.
 */
const claim = `${evenIfFull}${expiring}
local claims = {}
-- A claim that arrives after it was given back leases nothing.
if call('EXISTS', key('lost', input.name)) == 1 then return { now, claims } end

local function lease(record, id)
  expire(record)
  local event, lease_end = load(id), now + input.duration
  local token = input.name .. ':' .. event.seq
  local due = due_of(event)
  move(event, 'processing', lease_end, nil, 'attempts', event.attempts + 1, 'claimed', now, 'w' .. event.entries, input.worker, 'lease', token)
  call('HSET', key('record', record), 'lease', token, 'event', id, 'lease_end', lease_end, 'duration', input.duration)
  call('ZADD', DUE, lease_end, record)
  claims[#claims + 1] = row(id, of_ref(SNAPSHOTS, record), due, of_ref(LEDGERS, record))
end

-- Makes :open of a record anew, because somebody deleted it. The due times are lost, so all events are due.
local function reopen(record)
  local ids = { string.sub(record, 2) }
  if string.sub(record, 1, 1) == 'r' then ids = call('ZRANGE', key('of', record), 0, -1) end
  for _, id in ipairs(ids) do
    local event = load(id)
    if event and event.record == record and event.state ~= 'done' then
      call('ZADD', key('open', record), event.state == 'parked' and 'inf' or now, event.member)
    end
  end
end

local function lease_first(record)
  local open = key('open', record)
  if call('EXISTS', open) == 0 then reopen(record) end
  local first = call('ZRANGE', open, 0, 0, 'WITHSCORES')
  while first[1] and tonumber(first[2]) <= now and call('EXISTS', key('event', id_of(first[1]))) == 0 do
    forget(id_of(first[1]), record, first[1])
    first = call('ZRANGE', open, 0, 0, 'WITHSCORES')
  end
  if first[1] and tonumber(first[2]) <= now then lease(record, id_of(first[1])) else refresh(record, 0) end
end

-- Makes :due anew, because somebody deleted it.
local function find_due()
  for _, state in ipairs({ 'scheduled', 'pending', 'processing', 'retrying' }) do
    for _, id in ipairs(call('ZRANGE', key('state', state), 0, -1)) do
      local event = load(id)
      local due = event and (due_of(event) or now)
      if event then call('ZADD', DUE, 'LT', due, event.record) else forget(id) end
    end
  end
end

local function lease_only(id)
  local event = load(id)
  local due = event and due_of(event)
  local record_due = event and tonumber(call('ZSCORE', DUE, event.record))
  if due and due <= now and record_due and record_due <= now then lease(event.record, id) end
end

-- Leases the records that are due first, of those that the restriction takes. Returns the next due time of these records,
-- or -1 if the script has not looked so far, and where to go on.
local function lease_some(restriction)
  local found, after = look_for(restriction, input.after, now, input.limit)
  for _, each in ipairs(found) do lease_first(each) end
  if after or #found == input.limit then return -1, after end
  local first, more = look_for(restriction, nil, '+inf', 1)
  return first[1] and tonumber(call('ZSCORE', DUE, first[1])) or more and -1 or false
end

local function lease_due()
  local records = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, input.limit)
  for _, record in ipairs(records) do lease_first(record) end
  return next_due()
end

local restriction, next, after = input.restriction, -1, nil
if input.id then
  local event = load(input.id)
  if event and (not restriction or takes_of(restriction)(event.record)) then lease_only(input.id) end
  if not restriction then next = next_due() end
else
  if call('EXISTS', DUE) == 0 and call('EXISTS', key('state', 'pending'), key('state', 'retrying'),
    key('state', 'scheduled'), key('state', 'processing')) > 0 then find_due() end
  if restriction then next, after = lease_some(restriction) else next = lease_due() end
end
return answer({ now, claims, next, call('SPOP', base .. ':gone', 20), after or false })
`;

/** Lua function that returns whether a claim's lease is held. */
const holding = `
local function is_held(claim)
  local v = call('HMGET', key('record', claim.record), 'lease', 'lease_end', 'event')
  return v[1] == claim.lease and v[2] and v[3] == claim.id
end
`;

const renew = `${evenIfFull}${holding}
local held = {}
for _, claim in ipairs(input.claims) do
  local event = is_held(claim) and load(claim.id)
  if event then
    hold(claim.record, event, now + input.duration, input.duration)
    held[#held + 1] = claim.lease
  end
end
return held
`;

const settle = `${evenIfFull}${expiring}${adding}${removing}${holding}
-- No pending or retrying event of the record is due before a time.
local function delay(record, time)
  local open = key('open', record)
  for _, member in ipairs(call('ZRANGEBYSCORE', open, '-inf', '(' .. time)) do
    local state = call('HGET', key('event', id_of(member)), 'state')
    if state == 'pending' or state == 'retrying' then call('ZADD', open, time, member) end
  end
end

local function remember(ref, snapshot, changed)
  local known = call('HGET', SNAPSHOTS, ref)
  local sequence = known and tonumber(string.match(known, '^%d+')) or 0
  if not known or changed then sequence = sequence + 1 end
  write_snapshot(ref, sequence, now, snapshot)
end

local function settle(settlement)
  local event, record = load(settlement.id), settlement.record
  if not is_held(settlement) then
    -- If this lease ended the attempt, the answer of an earlier call was lost.
    local settled = event and event.lease == settlement.lease and event.state ~= 'processing' and 1 or 0
    return { settled, settled }
  end
  end_lease(record)
  if not event then
    -- Somebody deleted the event during its attempt.
    forget(settlement.id, record)
    refresh(record, now)
    return { 0, 0 }
  end
  if settlement.own then
    -- Another event takes the place of this event.
    event.received, event.first_due = now, settlement.wait and due_time(settlement) or event.first_due
    call('HSET', key('event', event.id), 'received', now, 'first_due', event.first_due)
    set_notification(event.id, settlement.own.notification)
    note_received(settlement.own.source, now)
  end
  move(event, settlement.state, settlement.wait and due_time(settlement), settlement.reason, unpack(settlement.fields))
  if settlement.drops then set_notification(event.id) end
  if settlement.delay then delay(record, now + settlement.delay) end
  if settlement.snapshot then remember(string.sub(record, 2), settlement.snapshot, settlement.changed) end
  if settlement.ledger then write_ledger(string.sub(record, 2), settlement.ledger) end
  if settlement.remove then remove(record, settlement.remove, event.id) end
  for _, addition in ipairs(settlement.additions) do add(addition) end
  return { 1, refresh(record, now) and 1 or 0 }
end

local results = {}
for index, settlement in ipairs(input) do results[index] = settle(settlement) end
return answer(results)
`;

const nextDue = `
if not input.restriction then return { now, next_due() } end
local found, after = look_for(input.restriction, input.after, '+inf', 1)
return { now, found[1] and tonumber(call('ZSCORE', DUE, found[1])) or false, after or false }
`;

const bodies = { start, schema, endTrial, add, claim, renew, settle, nextDue, ...upkeep };

export type ScriptName = keyof typeof bodies;

/** The scripts whose second run gives another answer than the first one. */
export const runsOnce: ReadonlySet<ScriptName> = new Set<ScriptName>(["claim", "write", "setMeta", "prune"]);

export interface Script {
  readonly text: string;
  /** The SHA-1 of the text, for EVALSHA. */
  readonly sha: string;
}

/** The scripts that run although the keys may not exist. */
const unguarded = ["start", "schema", "endTrial"];

export const scripts = Object.fromEntries(
  Object.entries(bodies).map(([name, body]) => {
    const text = prelude + (unguarded.includes(name) ? "" : guard) + body;
    return [name, { text, sha: createHash("sha1").update(text).digest("hex") }];
  }),
) as unknown as Readonly<Record<ScriptName, Script>>;
