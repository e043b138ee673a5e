import { createHash } from "node:crypto";
import { adding, evenIfFull, expiring, guard, prelude, removing } from "./redis-lua.ts";
import * as upkeep from "./redis-upkeep-scripts.ts";

/** The scripts that add, claim, renew and settle events. Each comment lists the arguments from `ARGV[3]` on. */

/**
 * Argument: the schema version, which the script writes if Redis has none. Returns the prefix of the keys and the schema
 * version in Redis. PUBLISH comes first, so that a user without the right to publish gets an error before the first write.
 */
const start = `
call('PUBLISH', base .. ':wake', '')
local v = call('HMGET', base .. ':meta', 'schema', 'format')
if not v[1] and not v[2] then call('HSET', base .. ':meta', 'schema', ARGV[3]) end
return { base, v[1] or v[2] and 0 or ARGV[3] }
`;

/** Arguments: those of the Lua function `add`, for each event. Returns a list with an answer for each event. */
const add = `${expiring}${adding}
local answers = {}
while ARGV[next_arg] do answers[#answers + 1] = add() end
return answer(answers)
`;

/**
 * Arguments: limit, lease duration in ms, name of the claim, worker as JSON, event id or an empty text, 1 for the newest
 * records first. The leases are `<name>:0`, `<name>:1` and so on. Returns the time and a list of RowReply with snapshots.
 */
const claim = `${evenIfFull}${expiring}
local limit, duration, name, worker, only, newest = unpack(args(6))
limit, duration = tonumber(limit), tonumber(duration)
local claims = {}

local function lease(record, event)
  expire(record)
  -- The event may be the one whose lease has ended.
  event = load(event.id)
  local token, lease_end = name .. ':' .. #claims, now + duration
  move(event, 'processing', lease_end, nil, 'attempts', event.attempts + 1, 'claimed', now, 'worker', worker, 'lease', token)
  call('HSET', key('record', record), 'lease', token, 'event', event.id, 'lease_end', lease_end, 'duration', duration)
  call('ZADD', DUE, lease_end, record)
  claims[#claims + 1] = row(event.id, call('HGET', SNAPSHOTS, string.sub(record, 2)))
end

local function lease_first(record)
  local first = call('ZRANGE', key('open', record), 0, 0, 'WITHSCORES')
  if first[1] and tonumber(first[2]) <= now then lease(record, { id = id_of(first[1]) }) else refresh(record, 0) end
end

if only ~= '' then
  local event = load(only)
  local due = event and due_of(event)
  local record_due = event and tonumber(call('ZSCORE', DUE, event.record))
  if due and due <= now and record_due and record_due <= now then lease(event.record, event) end
elseif newest == '1' then
  for _, each in ipairs(call('ZREVRANGEBYSCORE', DUE, now, '-inf', 'LIMIT', 0, limit)) do lease_first(each) end
else
  for _, each in ipairs(call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, limit)) do lease_first(each) end
end
return answer({ now, claims })
`;

/** Arguments: lease duration in ms, then record, event id and lease of each claim. Returns the leases that are held. */
const renew = `${evenIfFull}
local duration, held = number(), {}
while ARGV[next_arg] do
  local record, id, token = arg(), arg(), arg()
  local v = call('HMGET', key('record', record), 'lease', 'lease_end', 'event')
  if v[1] == token and v[2] and v[3] == id then
    hold(record, load(id), now + duration, duration)
    held[#held + 1] = token
  end
end
return answer(held)
`;

/**
 * Arguments of each settlement: the number of its further arguments; record, id, lease, state, ms until the event is due
 * or an empty text, reason, history, ms of a delay or an empty text, snapshot or an empty text, 1 if the snapshot
 * changed, 1 if another event takes the place of this event, source, notification; the number of fields and values, and
 * those; the arguments of `remove`; the number of additions, and the arguments of `add` for each. Returns for each
 * settlement whether the lease ended the attempt, and whether the record has more events.
 */
const settle = `${evenIfFull}${expiring}${adding}${removing}
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
  if not known or changed == '1' then sequence = sequence + 1 end
  write_snapshot(ref, sequence, now, snapshot)
end

local function settle()
  local record, id, token = arg(), arg(), arg()
  local event, v = load(id), call('HMGET', key('record', record), 'lease', 'lease_end', 'event')
  if v[1] ~= token or not v[2] or v[3] ~= id then
    -- If this lease ended the attempt, and no other lease followed, the answer of an earlier call was lost.
    local is_last = not v[1] or v[1] == token
    return { event and event.lease == token and event.state ~= 'processing' and is_last and 1 or 0, 0 }
  end
  local state, wait, reason, history, wait_of_all = arg(), number(), arg(), arg(), number()
  local snapshot, changed, is_replaced, source, notification = unpack(args(5))
  local fields = args(number())
  call('HDEL', key('record', record), 'lease_end')
  if is_replaced == '1' then
    event.received = now
    call('HSET', key('event', id), 'received', now)
    set_notification(id, notification)
    note_received(source, now)
  end
  if history ~= '' then call('SET', key('history', id), history) end
  move(event, state, wait and now + wait, reason, unpack(fields))
  if wait_of_all then delay(record, now + wait_of_all) end
  if snapshot ~= '' then remember(string.sub(record, 2), snapshot, changed) end
  remove(record, id)
  for _ = 1, number() do add() end
  return { 1, refresh(record, now) and 1 or 0 }
end

local results = {}
while ARGV[next_arg] do
  local size = number()
  local following = next_arg + size
  results[#results + 1] = settle()
  next_arg = following
end
return answer(results)
`;

const nextDue = `
local first = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
return { now, first and max(0, tonumber(first) - now) or false }
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
