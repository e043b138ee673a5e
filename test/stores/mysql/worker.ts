/**
 * A process that handles all due events with callbacks that write to a table of the user's. At a point that it is told, it
 * says so and waits, so that a test can kill or freeze it there. It ends when nothing is left to do.
 */
import { setTimeout as sleep } from "node:timers/promises";
import mysql, { type Pool, type PoolConnection } from "mysql2/promise";
import { StayhookClient } from "../../../src/client/client.ts";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";

export type Point = "in the callback" | "in the writes" | "before the commit" | "after the commit";

export interface WorkerOptions {
  /** Of the database. */
  readonly url: string;
  /** Where the process waits, the second time that it gets there. */
  readonly standAt?: Point;
  /** How far its clock is ahead of the machine's, ms. */
  readonly ahead: number;
  readonly leaseDuration: number;
}

const { url, standAt, ahead, leaseDuration }: WorkerOptions = JSON.parse(process.argv[2]!);
const now = Date.now;
Date.now = () => now() + ahead;

let passed = 0;
async function point(name: Point): Promise<void> {
  if (name !== standAt) return;
  passed += 1;
  if (passed !== 2) return;
  await new Promise<void>((resolve) => process.send?.(name, () => resolve()));
  await sleep(500);
}

/** Stops at the commit of a transaction in which the user has written. */
function watched(pool: Pool): Pool {
  const get = pool.getConnection.bind(pool);
  return Object.assign(pool, {
    async getConnection(): Promise<PoolConnection> {
      const connection = await get();
      const query = connection.query.bind(connection) as (...args: unknown[]) => Promise<unknown>;
      let hasWritten = false;
      return Object.assign(connection, {
        query: async (...args: unknown[]) => {
          const text = typeof args[0] === "string" ? args[0] : (args[0] as { readonly sql: string }).sql;
          if (text === "START TRANSACTION") hasWritten = false;
          if (text.startsWith("SAVEPOINT")) hasWritten = true;
          if (text === "COMMIT" && hasWritten) await point("before the commit");
          const result = await query(...args);
          if (text === "COMMIT" && hasWritten) await point("after the commit");
          return result;
        },
      });
    },
  });
}

const pool = watched(mysql.createPool({ uri: url, connectionLimit: 6 }));
// A commit can only be watched in a pool of the test's own.
const place = standAt?.endsWith("commit") ? { pool } : { url };
const store = mysqlStore({ ...place, pollInterval: 100 });
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: "https://platform.test",
    accessToken: "token",
    fetch: async (path) =>
      Response.json({ bookingCode: new URL(path).pathname.split("/").at(-1), status: "Confirmed" }),
  }),
  store,
  verify: () => true,
  leaseDuration,
  concurrency: 3,
  recheckAfter: false,
  backoff: () => 100,
  logger: ({ level, message }) => {
    if (level === "error") console.error(message);
  },
  on: {
    async fallback(event) {
      const { eventId } = event;
      await pool.query("INSERT INTO begun VALUES (?)", [eventId]);
      event.atomically(async (tx) => {
        await tx.query("INSERT INTO handled VALUES (?)", [eventId]);
        await point("in the writes");
      });
      await point("in the callback");
    },
  },
});
webhooks.start();
for (const until = now() + 60_000; now() < until; await sleep(50)) {
  const { pending, processing, retrying } = await store.counts();
  if (pending + processing + retrying === 0) break;
}
await webhooks.close();
await store.close();
await pool.end();
process.disconnect?.();
