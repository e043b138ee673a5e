/**
 * What the Redis store costs: `npx node bench/redis-store.ts [kept ...]`, with how many done events are kept
 * (default 1000 1000000, which take about 1 GB of memory). On servers of its own; without `redis-server`, nothing.
 */
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import type { EventStore, NewEvent } from "../src/stores/event-store.ts";
import { redisStore } from "../src/stores/redis/index.ts";
import { startOwnRedis } from "../test/support/redis-server.ts";

const GROUP = 50;
const ADDS = 5000;
const CLAIMS = 500;
const EVENTS_A_RECORD = 5;
const SNAPSHOT = {
  status: "Confirmed",
  fields: { checkIn: "2026-07-01", checkOut: "2026-07-08", listingId: "12345" },
};
const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 120 },
  record: { snapshot: SNAPSHOT, changed: true },
} as const;
const WORKER = "app-1.example:12345";

const sizes = process.argv.slice(2).map(Number);
const persistence = {
  "on disk before the answer": ["--appendonly", "yes", "--appendfsync", "always"],
  "on disk each second": ["--appendonly", "yes", "--appendfsync", "everysec"],
  "in memory": ["--appendonly", "no"],
};

for (const [name, args] of Object.entries(persistence)) {
  await withStore(args, async (store) => {
    await addMany(store, 2000);
    const perSecond = await addMany(store, ADDS);
    const alone = await median(200, () => store.add(newEvent(1000)));
    console.log(`${name}: ${perSecond} adds/s in groups of ${GROUP}; one alone takes ${alone} ms`);
    const done = await drain(store);
    console.log(`${name}: ${done} claims and settlings/s, 10 at a time`);
  });
}
for (const kept of sizes.length > 0 ? sizes : [1000, 1_000_000]) {
  await withStore(persistence["in memory"], (store, admin) => measure(store, admin, kept));
}

async function measure(store: EventStore, admin: Redis, kept: number): Promise<void> {
  const memory = async () => Number(/used_memory:(\d+)/.exec(await admin.info("memory"))?.[1]);
  // The first ones bring the scripts along.
  await addMany(store, 1000);
  await drain(store);
  const before = await memory();
  await fill(admin, kept);
  const bytes = Math.round(((await memory()) - before) / kept);
  console.log(`\n${kept.toLocaleString("en")} done events kept, ${bytes} bytes each`);
  console.log(`  claim and settle of one: ${await claimOne(store, kept)} ms`);
  const crowd = Array.from({ length: 10_000 }, () => ({ ...newEvent(kept), ref: "booking:CROWD" }));
  for (let at = 0; at < crowd.length; at += 500)
    await Promise.all(crowd.slice(at, at + 500).map((event) => store.add(event)));
  console.log(`  the same, with 10,000 pending of one record: ${await claimOne(store, kept)} ms`);
  console.log(`  counts: ${await median(100, () => store.counts())} ms`);
  console.log(`  oldestWaiting: ${await median(100, () => store.oldestWaiting())} ms`);
  console.log(`  nextDue: ${await median(100, () => store.nextDue())} ms`);
  console.log(`  list of 50: ${await median(100, () => store.list({ limit: 50 }))} ms`);
  console.log(
    `  prune of 200: ${await median(4, () => store.prune({ state: "done", age: 0, limit: 200 }))} ms`,
  );
}

async function withStore(
  args: readonly string[],
  use: (store: EventStore, admin: Redis) => Promise<void>,
): Promise<void> {
  const server = await startOwnRedis({ args });
  if (server === undefined) return;
  const admin = new Redis(server.url);
  const store = redisStore({ url: server.url, logger: () => {}, commandTimeout: 60_000 });
  try {
    await use(store, admin);
  } finally {
    await store.close();
    admin.disconnect();
    await server.close();
  }
}

/** Straight into the keys: one by one it would take too long. Done events look as the store leaves them. */
async function fill(admin: Redis, kept: number): Promise<void> {
  const step = 5000;
  const { notification } = newEvent(kept);
  for (let from = 0; from < kept; from += step) {
    const ids = Array.from({ length: Math.min(step, kept - from) }, () => randomUUID());
    await admin.eval(
      `local base, now = KEYS[1], tonumber(ARGV[2])
      for index = 3, #ARGV do
        local id, number = ARGV[index], tonumber(ARGV[1]) + index
        local ref = 'booking:HM' .. string.format('%08d', math.floor(number / ${EVENTS_A_RECORD}))
        redis.call('HSET', base .. ':event:' .. id, 'seq', number, 'state', 'done', 'received', now,
          'time', '2026-03-01T10:00:00.000Z', 'ref', ref, 'attempts', 1, 'settled', '01234567890', 'type', 'booking.Confirmed',
          'h0', '[' .. now .. ',120,"done"]', 'h', 1, 'w0', '${WORKER}', 'ended', now)
        redis.call('SET', base .. ':notification:' .. id, '${notification}')
        redis.call('ZADD', base .. ':state:done', number, id)
        redis.call('ZADD', base .. ':of:' .. ref, number, number)
        redis.call('ZADD', base .. ':ended:done', now, number)
        if number % ${EVENTS_A_RECORD} == 0 then
          redis.call('HSET', base .. ':records', ref, '1:' .. ARGV[2] .. ':${JSON.stringify(SNAPSHOT)}')
          redis.call('ZADD', base .. ':refs', 0, ref)
          redis.call('ZADD', base .. ':seen', now, ref)
        end
      end
      redis.call('HSET', base .. ':meta', 'seq', 1e9)`,
      1,
      "{stayhook}",
      String(10_000 + from),
      String(Date.now()),
      ...ids,
    );
  }
}

async function addMany(store: EventStore, count: number): Promise<number> {
  const start = performance.now();
  for (let added = 0; added < count; added += GROUP) {
    await Promise.all(Array.from({ length: GROUP }, () => store.add(newEvent(1_000_000))));
  }
  return Math.round((count / (performance.now() - start)) * 1000);
}

/** Ends what waits; says how many it was each second. */
async function drain(store: EventStore): Promise<number> {
  const start = performance.now();
  for (let done = 0; ; ) {
    const claims = await store.claim({ limit: 10, leaseDuration: 60_000, worker: WORKER });
    if (claims.length === 0) return Math.round((done / (performance.now() - start)) * 1000);
    await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    done += claims.length;
  }
}

async function claimOne(store: EventStore, kept: number): Promise<string> {
  return median(CLAIMS, async () => {
    await store.add(newEvent(kept));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000, worker: WORKER });
    await store.settle(claim!, DONE);
  });
}

function newEvent(kept: number): NewEvent {
  const eventId = randomUUID();
  const number = String(Math.floor((Math.random() * kept) / EVENTS_A_RECORD)).padStart(8, "0");
  const timestamp = "2026-03-01T10:00:00.000Z";
  const notification = JSON.stringify({ eventId, bookingCode: `HM${number}`, listingId: null, timestamp });
  return { eventId, ref: `booking:HM${number}`, source: "webhook", topic: null, timestamp, notification };
}

async function median(times: number, run: () => Promise<unknown>): Promise<string> {
  const took: number[] = [];
  for (let index = 0; index < times; index++) {
    const from = performance.now();
    await run();
    took.push(performance.now() - from);
  }
  return took.toSorted((a, b) => a - b)[Math.floor(times / 2)]!.toFixed(2);
}
