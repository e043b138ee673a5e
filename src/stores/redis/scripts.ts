import { createHash } from "node:crypto";
import { guard, looking, prelude } from "./lua/prelude.ts";
import * as writing from "./lua/writing.ts";

/** Scripts that only read, but for `start`. */
const reading = {
  /**
   * Takes the schema that this version writes, and writes it if there is none. Returns the schema, the prefix of the
   * keys, and whether a version before schema 1 has written here. PUBLISH comes first, so that a user without the right
   * to publish gets the error before any write.
   */
  start: `
call('PUBLISH', base .. ':wake', '')
local v = call('HMGET', base .. ':meta', 'schema', 'format')
if not v[1] and not v[2] then call('HSET', base .. ':meta', 'schema', ARGV[3]) end
return { v[1] or ARGV[3], base, not v[1] and v[2] and 1 or 0 }
`,

  nextDue: `
if call('EXISTS', base .. ':ready:pending', base .. ':ready:retries') > 0 then return 0 end
if #call('ZRANGEBYSCORE', base .. ':ready:began', '(' .. now, '+inf', 'LIMIT', 0, 1) > 0 then return 0 end
local first = call('ZRANGE', base .. ':ready:later', 0, 0, 'WITHSCORES')
return first[1] and max(0, tonumber(first[2]) - now) or false
`,

  /** id */
  get: `${looking}
return row(ARGV[3])`,

  /** id */
  arrival: `return call('HGET', event_key(ARGV[3]), 'seq')`,

  /** see `look` */
  list: `${looking}
local ids, next = look(3)
local rows = {}
for index, id in ipairs(ids) do rows[index] = row(id) end
return { rows, next }
`,

  counts: `
local counts = {}
for index, state in ipairs({ 'pending', 'processing', 'retrying', 'done', 'parked' }) do
  counts[index] = call('ZCARD', state_key(state))
end
return counts
`,

  oldestWaiting: `
local oldest = math.huge
-- The first event of a state that counts.
local function consider(state, counts)
  for from = 0, math.huge, 100 do
    local ids = call('ZRANGE', state_key(state), from, from + 99)
    for _, id in ipairs(ids) do
      local v = call('HMGET', event_key(id), 'received', 'due', 'began', 'lease_end')
      if counts(tonumber(v[2]) or 0, tonumber(v[3]) or 0, tonumber(v[4]) or 0) then
        oldest = min(oldest, tonumber(v[1]))
        return
      end
    end
    if #ids < 100 then return end
  end
end
consider('pending', function(due, began) return due <= now or now < began end)
consider('retrying', function() return true end)
consider('processing', function(_, _, lease_end) return lease_end <= now end)
return oldest < math.huge and max(0, now - oldest) or false
`,

  newestReceived: `return call('HGET', base .. ':meta', 'newest')`,

  /** ref */
  recordOf: `return call('HGET', base .. ':records', ARGV[3])`,

  /** ref behind which to go on, or nothing; limit */
  records: `
local from = ARGV[3] == '' and '-' or ('(' .. ARGV[3])
local refs = call('ZRANGEBYLEX', base .. ':refs', from, '+', 'LIMIT', 0, ARGV[4])
if #refs == 0 then return { refs, {} } end
return { refs, call('HMGET', base .. ':records', unpack(refs)) }
`,

  /** key. Gives the value and its age. */
  getMeta: `
local kept = call('HGET', base .. ':values', ARGV[3])
if not kept then return false end
local at, value = string.match(kept, '^(%d+):(.*)$')
return { value, max(0, now - tonumber(at)) }
`,
};

const bodies = { ...reading, ...writing };

export type ScriptName = keyof typeof bodies;

export interface Script {
  readonly text: string;
  /** SHA-1: how Redis calls it once it has it. */
  readonly sha: string;
}

export const scripts = Object.fromEntries(
  Object.entries(bodies).map(([name, body]) => {
    const text = prelude + (name === "start" ? "" : guard) + body;
    return [name, { text, sha: createHash("sha1").update(text).digest("hex") }];
  }),
) as unknown as Readonly<Record<ScriptName, Script>>;
