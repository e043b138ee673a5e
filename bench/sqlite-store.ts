/**
 * Measures the SQLite store. Compare figures of one run only: `npx node bench/sqlite-store.ts [kept ...]`, where `kept`
 * is how many done events the file has (default 10000 1000000; 5000000 takes 2 GB of disk and minutes to fill).
 */
import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { EventStore, NewEvent } from "../src/stores/event-store.ts";
import { type SqliteStoreOptions, sqliteStore } from "../src/stores/sqlite/index.ts";

const GROUP = 50;
const ADDS = 50_000;
const CLAIMS = 500;
const EVENTS_A_RECORD = 5;
const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 20 },
  record: { snapshot: { status: "Confirmed", fields: { checkIn: "2026-07-01" } }, changed: true },
} as const;

const sizes = process.argv.slice(2).map(Number);
const directory = mkdtempSync(join(tmpdir(), "stayhook-bench-"));
try {
  for (const kept of sizes.length > 0 ? sizes : [10_000, 1_000_000]) await measure(kept);
} finally {
  rmSync(directory, { recursive: true });
}

async function measure(kept: number): Promise<void> {
  const path = join(directory, `${kept}.db`);
  await fill(path, kept);
  const bytes = Math.round(statSync(path).size / kept);
  console.log(`\n${kept.toLocaleString("en")} done events kept, ${bytes} bytes each`);
  for (const durability of ["power-loss", "process-crash"] as const) {
    await withStore(path, { durability }, async (store) => {
      await addMany(store, 2000, kept);
      const { perSecond, p50, p99 } = await addMany(store, ADDS, kept);
      console.log(
        `  ${durability}: ${perSecond} adds/s in groups of ${GROUP}; a group takes ${p50} ms, p99 ${p99} ms`,
      );
      await clear(store);
      const add = await median(200, () => store.add(newEvent(kept)));
      await clear(store);
      console.log(`  ${durability}: one add alone takes ${add} ms`);
    });
  }
  await withStore(path, { durability: "process-crash" }, async (store) => {
    console.log(`  claim and settle of one: ${await claimOne(store, kept)} ms`);
    const crowd = Array.from({ length: 10_000 }, () => ({ ...newEvent(kept), ref: "booking:CROWD" }));
    for (let at = 0; at < crowd.length; at += 500)
      await Promise.all(crowd.slice(at, at + 500).map((event) => store.add(event)));
    console.log(`  the same, with 10,000 pending of one record: ${await claimOne(store, kept)} ms`);
    console.log(`  counts: ${await median(100, () => store.counts())} ms`);
    console.log(`  oldestWaiting: ${await median(100, () => store.oldestWaiting())} ms`);
    console.log(`  nextDue: ${await median(100, () => store.nextDue())} ms`);
    const prune = await median(20, () => store.prune({ state: "done", age: 0, limit: 200 }));
    console.log(`  prune of 200: ${prune} ms`);
  });
}

/** Fills the tables directly, as adds would take too long. */
async function fill(path: string, kept: number): Promise<void> {
  await sqliteStore(path).close();
  const db = new DatabaseSync(path);
  db.exec("PRAGMA cache_size = -1000000; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
  const notification = newEvent(kept).notification!;
  db.exec(`
    BEGIN;
    INSERT INTO stayhook_events (id, record, state, due_at, received_at, attempts, ended_at, type, source, timestamp, notification)
    SELECT randomblob(16), 'booking:HM' || printf('%08d', abs(random()) % ${Math.ceil(kept / EVENTS_A_RECORD)}), 'done',
      ${Date.now()} - ${kept} + value, ${Date.now()} - ${kept} + value, 1, ${Date.now()} - ${kept} + value,
      'booking.Confirmed', 'webhook', '2026-03-01T10:00:00.000Z', '${notification}'
    FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ${kept}) SELECT value FROM n);
    INSERT INTO stayhook_records (record, snapshot, sequence, seen_at)
    SELECT record, '${JSON.stringify(DONE.record.snapshot)}', 1, max(ended_at) FROM stayhook_events GROUP BY record;
    COMMIT;
    PRAGMA journal_mode = WAL;
    PRAGMA wal_checkpoint(TRUNCATE);`);
  db.close();
  // Or the disk would still be busy while the benchmark measures.
  const file = openSync(path, "r+");
  fsyncSync(file);
  closeSync(file);
}

async function withStore(
  path: string,
  options: SqliteStoreOptions,
  use: (store: EventStore<DatabaseSync>) => Promise<void>,
): Promise<void> {
  const store = sqliteStore(path, options);
  await use(store);
  await store.close();
}

async function addMany(store: EventStore<DatabaseSync>, count: number, kept: number) {
  const took: number[] = [];
  const start = performance.now();
  for (let added = 0; added < count; added += GROUP) {
    const from = performance.now();
    await Promise.all(Array.from({ length: GROUP }, () => store.add(newEvent(kept))));
    took.push(performance.now() - from);
  }
  const perSecond = Math.round((count / (performance.now() - start)) * 1000);
  return { perSecond, p50: quantile(took, 0.5), p99: quantile(took, 0.99) };
}

/** Ends all events that wait. */
async function clear(store: EventStore<DatabaseSync>): Promise<void> {
  for (;;) {
    const claims = await store.claim({ limit: 500, leaseDuration: 60_000 });
    if (claims.length === 0) return;
    await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
  }
}

async function claimOne(store: EventStore<DatabaseSync>, kept: number): Promise<string> {
  return median(CLAIMS, async () => {
    await store.add(newEvent(kept));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
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
  return quantile(took, 0.5);
}

function quantile(values: readonly number[], share: number): string {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]!.toFixed(2);
}
