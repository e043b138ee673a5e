/**
 * Measures the PostgreSQL store on a real server, the machine's or one of its own:
 * `npx node bench/postgres-store.ts [kept ...]`. `kept` is the number of done events in the store (default 1000 1000000).
 */
import { randomBytes, randomUUID } from "node:crypto";
import pg from "pg";
import type { NewEvent } from "../src/stores/event-store.ts";
import { type PostgresStore, postgresStore } from "../src/stores/postgres/index.ts";
import { postgresUrl } from "../test/support/postgres-server.ts";

const ADDS = 5000;
const STEPS = 300;
const HOT = 10_000;
const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 5 },
  record: {
    snapshot: {
      status: "Confirmed",
      fields: { checkIn: "2026-03-02", checkOut: "2026-03-05", listingId: 7 },
    },
    changed: true,
  },
} as const;

const connectionString = await postgresUrl();
const sizes = process.argv.slice(2).map(Number);
if (connectionString !== undefined) {
  for (const kept of sizes.length > 0 ? sizes : [1000, 1_000_000]) await measure(kept);
}

async function measure(kept: number): Promise<void> {
  const schema = `stayhook_bench_${randomBytes(4).toString("hex")}`;
  const client = new pg.Client({ connectionString });
  await client.connect();
  const store = postgresStore({ connectionString, schema });
  const other = postgresStore({ connectionString, schema });
  try {
    await store.migrate();
    await client.query(`
      INSERT INTO ${schema}.events (seq, id, record, state, due_at, received_at, ended_at, source, "timestamp", notification)
      SELECT nextval('${schema}.event_seq'), gen_random_uuid()::text, 'booking:K' || n % 100000, 'done', now(), now(), now(), 'webhook', '', repeat('x', 200)
      FROM generate_series(1, ${kept}) n`);
    await client.query(`
      INSERT INTO ${schema}.refs SELECT 'booking:K' || n FROM generate_series(0, least(${kept}, 100000) - 1) n`);
    await client.query(`
      INSERT INTO ${schema}.records (record, version, snapshot, sequence, seen_at)
      SELECT 'booking:K' || n, 0, '{"status":"Confirmed","fields":{}}', 1, now() FROM generate_series(0, least(${kept}, 100000) - 1) n`);
    await client.query(`VACUUM ANALYZE ${schema}.events`);
    console.log(`\n${kept.toLocaleString("en")} done events kept`);
    await measureAdds(store);
    await drain(store);
    console.log(`  claim and settle: ${await measureSteps(store, (index) => `booking:S${index}`)}`);
    await Promise.all(Array.from({ length: HOT }, () => store.add(eventOf("booking:hot"))));
    console.log(`  with ${HOT} waiting for one record: ${await measureHot(store)}`);
    console.log(`  another record beside it: ${await measureSteps(store, (index) => `booking:T${index}`)}`);
    console.log(`  from add to another process's wake and claim: ${await measureWake(store, other)}`);
  } finally {
    await Promise.all([store.close(), other.close()]);
    await client.query(`DROP SCHEMA ${schema} CASCADE`);
    await client.end();
  }
}

async function measureAdds(store: PostgresStore): Promise<void> {
  let start = performance.now();
  for (let index = 0; index < ADDS / 10; index++) await store.add(eventOf(`booking:A${index}`));
  const single = ADDS / 10 / ((performance.now() - start) / 1000);
  start = performance.now();
  let next = 0;
  const one = async () => {
    while (next < ADDS) await store.add(eventOf(`booking:B${next++ % 500}`));
  };
  await Promise.all(Array.from({ length: 100 }, one));
  const grouped = ADDS / ((performance.now() - start) / 1000);
  console.log(
    `  adds/s: ${Math.round(single)} one by one, ${Math.round(grouped)} by 100 at once (${(grouped / single).toFixed(1)} times)`,
  );
}

async function drain(store: PostgresStore): Promise<void> {
  const start = performance.now();
  let total = 0;
  const work = async () => {
    for (;;) {
      const claims = await store.claim({ limit: 10, leaseDuration: 60_000 });
      if (claims.length === 0) return;
      await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
      total += claims.length;
    }
  };
  await Promise.all([work(), work()]);
  console.log(`  drained ${total} events, ${Math.round(total / ((performance.now() - start) / 1000))}/s`);
}

/** An event of a record of its own, each time. */
async function measureSteps(store: PostgresStore, ref: (index: number) => string): Promise<string> {
  const claims: number[] = [];
  const settles: number[] = [];
  for (let index = 0; index < STEPS; index++) {
    const event = eventOf(ref(index));
    await store.add(event);
    const start = performance.now();
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000, eventId: event.eventId });
    claims.push(performance.now() - start);
    const middle = performance.now();
    await store.settle(claim!, DONE);
    settles.push(performance.now() - middle);
  }
  return `${percentiles(claims)} and ${percentiles(settles)}`;
}

async function measureHot(store: PostgresStore): Promise<string> {
  const claims: number[] = [];
  const settles: number[] = [];
  for (let index = 0; index < STEPS; index++) {
    const start = performance.now();
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    claims.push(performance.now() - start);
    const middle = performance.now();
    await store.settle(claim!, DONE);
    settles.push(performance.now() - middle);
  }
  return `${percentiles(claims)} and ${percentiles(settles)}`;
}

async function measureWake(store: PostgresStore, other: PostgresStore): Promise<string> {
  let woken = () => {};
  const end = other.subscribe?.(() => woken());
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const times: number[] = [];
  for (let index = 0; index < 100; index++) {
    const wake = new Promise<void>((resolve) => {
      woken = resolve;
    });
    const event = eventOf(`booking:W${index}`);
    const start = performance.now();
    await Promise.all([store.add(event), wake]);
    await other.claim({ limit: 1, leaseDuration: 60_000, eventId: event.eventId });
    times.push(performance.now() - start);
  }
  end?.();
  return percentiles(times);
}

function percentiles(times: number[]): string {
  const sorted = times.sort((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(2);
  return `${at(0.5)} ms (p99 ${at(0.99)})`;
}

function eventOf(ref: string): NewEvent {
  return {
    eventId: randomUUID(),
    ref,
    source: "webhook",
    topic: null,
    timestamp: "2026-03-01T10:00:00.000Z",
    notification: JSON.stringify({ padding: "x".repeat(200) }),
  };
}
