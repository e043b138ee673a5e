/**
 * Compares a store of two commits in one interleaved run. Each commit has its own process, and they take turns.
 *
 *     mkdir /tmp/old && git archive <commit> | tar x -C /tmp/old && ln -s $PWD/node_modules /tmp/old/
 *     npx node bench/compare-commits.ts /tmp/old . [rounds] [records] [sqlite | postgres | mysql | redis | memory]
 *
 * A ratio above 1 means that the second directory is faster. `records` is the number of records that the events belong
 * to.
 */
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import mysql from "mysql2/promise";
import pg from "pg";
import type { EventStore } from "../src/stores/event-store.ts";
import { mysqlUrl } from "../test/support/mysql-server.ts";
import { postgresUrl } from "../test/support/postgres-server.ts";
import { startOwnRedis } from "../test/support/redis-server.ts";

const EVENTS = 3000;
const CLAIM = 16;
const PHASES = ["add", "process"] as const;

/** Wall time and CPU time of each phase, in ms. */
type Times = Record<(typeof PHASES)[number], { readonly wall: number; readonly cpu: number }>;

const [first, second = ".", rounds = "15", records = "1000", name = "sqlite"] = process.argv.slice(2);
if (process.send !== undefined) await serve(first!, Number(records));
else await compare([first!, second], Number(rounds));

async function compare(directories: readonly [string, string], rounds: number): Promise<void> {
  // `appendfsync always`: Redis writes to the disk before it answers.
  const redis = name === "redis" ? await startOwnRedis({ args: ["--appendfsync", "always"] }) : undefined;
  process.env.BENCH_REDIS = redis?.url ?? "";
  const children = directories.map((directory) =>
    fork(import.meta.filename, [directory, "", "", records, name]),
  );
  try {
    for (const child of children) await run(child);
    const times: Times[][] = [[], []];
    for (let round = 0; round < rounds; round++) {
      // Alternate the order, because the disk may still be busy with the first run during the second.
      for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) times[index]!.push(await run(children[index]!));
    }
    for (const phase of PHASES) {
      for (const kind of ["wall", "cpu"] as const) {
        const [before, after] = times.map((runs) => median(runs.map((run) => run[phase][kind])));
        const ratio = (before! / after!).toFixed(3);
        console.log(
          `${phase.padEnd(8)} ${kind.padEnd(5)} ${before!.toFixed(0)} ms, ${after!.toFixed(0)} ms: ${ratio}`,
        );
      }
    }
  } finally {
    for (const child of children) child.disconnect();
    await Promise.all(children.map((child) => once(child, "exit")));
    await redis?.close();
  }
}

async function run(child: ChildProcess): Promise<Times> {
  child.send("run");
  const [times] = await once(child, "message");
  return times as Times;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

/** Runs one round per message, with the store of one directory. */
async function serve(directory: string, records: number): Promise<void> {
  const { store, drop } = await open(resolve(directory));
  process.on("disconnect", async () => {
    await store.close();
    await drop();
    process.exit();
  });
  process.on("message", async () => {
    const add = await timed(() => addAll(store, records));
    const work = await timed(() => processAll(store));
    process.send!({ add, process: work } satisfies Times);
  });
}

interface Opened {
  readonly store: EventStore;
  readonly drop: () => unknown;
}

/** Opens an empty store, with the code of one directory. */
async function open(directory: string): Promise<Opened> {
  const load = (path: string) => import(join(directory, "src", path));
  if (name === "memory") return { store: (await load("index.ts")).memoryStore(), drop: () => {} };
  if (name === "redis") {
    const { redisStore } = await load("stores/redis/index.ts");
    const prefix = `compare-${process.pid}`;
    return { store: redisStore({ url: process.env.BENCH_REDIS, prefix }), drop: () => {} };
  }
  if (name === "postgres") {
    const { postgresStore } = await load("stores/postgres/index.ts");
    const connectionString = await postgresUrl();
    const schema = `compare_${process.pid}`;
    const drop = async (): Promise<void> => {
      const client = new pg.Client({ connectionString });
      await client.connect();
      await client.query(`DROP SCHEMA ${schema} CASCADE`);
      await client.end();
    };
    return { store: postgresStore({ connectionString, schema }), drop };
  }
  if (name === "mysql") {
    const { mysqlStore } = await load("stores/mysql/index.ts");
    const server = (await mysqlUrl())!;
    const database = `compare_${process.pid}`;
    const ask = async (sql: string): Promise<void> => {
      const connection = await mysql.createConnection(server);
      await connection.query(sql);
      await connection.end();
    };
    await ask(`CREATE DATABASE ${database}`);
    const url = Object.assign(new URL(server), { pathname: `/${database}` }).href;
    return { store: mysqlStore({ url }), drop: () => ask(`DROP DATABASE ${database}`) };
  }
  const { sqliteStore } = await load("stores/sqlite/index.ts");
  const folder = mkdtempSync(join(tmpdir(), "stayhook-compare-"));
  return { store: sqliteStore(join(folder, "events.db")), drop: () => rmSync(folder, { recursive: true }) };
}

async function timed(run: () => Promise<void>) {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await run();
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { wall, cpu: (user + system) / 1000 };
}

async function addAll(store: EventStore, records: number): Promise<void> {
  for (let added = 0; added < EVENTS; added += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, index) => {
        const eventId = randomUUID();
        const code = `HM${String(((added + index) * 7919) % records).padStart(8, "0")}`;
        const timestamp = "2026-03-01T10:00:00.000Z";
        const notification = JSON.stringify({ eventId, bookingCode: code, listingId: null, timestamp });
        return store.add({
          eventId,
          ref: `booking:${code}`,
          source: "webhook",
          topic: null,
          timestamp,
          notification,
        });
      }),
    );
  }
}

async function processAll(store: EventStore): Promise<void> {
  for (let claims = 1; claims > 0; ) {
    const claimed = await store.claim({ limit: CLAIM, leaseDuration: 60_000, worker: "host:1" });
    claims = claimed.length;
    const record = { snapshot: { status: "Confirmed", fields: { checkIn: "2026-07-01" } }, changed: false };
    // stayhook 0.1 needs `status`.
    const outcome = {
      state: "done",
      type: "booking.Confirmed",
      entry: { duration: 20 },
      record,
      status: "Confirmed",
    } as const;
    await Promise.all(claimed.map((claim) => store.settle(claim, outcome)));
  }
}
