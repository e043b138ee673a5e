/**
 * A process that handles what is due by callbacks that write to a table of the user's, and that comes to points at
 * which it can be told to stand still: it says so, and whoever listens kills or freezes it there. Ends by itself
 * when nothing is left to do.
 */
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { StayhookClient } from "../../../src/client/client.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";

/** In the order of an event's life. */
export const POINTS = [
  "in the callback",
  "before the writes",
  "in the writes",
  "before the end of the event",
  "before the commit",
  "after the commit",
] as const;

export interface WorkerOptions {
  readonly url: string;
  readonly schema: string;
  /** Where it stands still, the second time it comes there. */
  readonly standAt?: (typeof POINTS)[number];
  /** By how much its clock is ahead of the machine's, ms. */
  readonly ahead: number;
  readonly leaseDuration: number;
}

const { url, schema, standAt, ahead, leaseDuration }: WorkerOptions = JSON.parse(process.argv[2]!);
const now = Date.now;
Date.now = () => now() + ahead;

let passed = 0;
async function point(name: (typeof POINTS)[number]): Promise<void> {
  if (name !== standAt) return;
  passed += 1;
  if (passed !== 2) return;
  await new Promise<void>((resolve) => process.send?.(name, () => resolve()));
  // Long enough to be killed or frozen in; who was frozen goes on when he is woken.
  await sleep(500);
}

const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true, max: 4 });
pool.on("connect", (client) => {
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
  Object.assign(client, {
    query: async (...args: unknown[]) => {
      const [first] = args;
      const text = typeof first === "string" ? first : (first as { readonly text: string }).text;
      const settles = /FROM \S+\.settle_events/.test(text);
      if (text.startsWith("SAVEPOINT")) await point("before the writes");
      if (settles) await point("before the end of the event");
      if (text === "COMMIT") await point("before the commit");
      const result = await query(...args);
      if (text === "COMMIT") await point("after the commit");
      return result;
    },
  });
});

const store = postgresStore({ pool, schema });
const client = new StayhookClient({
  baseUrl: "https://platform.test",
  accessToken: "token",
  fetch: async (path) =>
    Response.json({ bookingCode: new URL(path).pathname.split("/").at(-1), status: "Confirmed" }),
});
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const webhooks = createWebhookHandler({
  client,
  store,
  leaseDuration,
  concurrency: 3,
  recheckAfter: false,
  backoff: () => 100,
  logger,
  on: {
    async fallback(event) {
      const { eventId } = event;
      await pool.query(`INSERT INTO ${schema}.begun VALUES ($1)`, [eventId]);
      event.atomically?.(async (tx) => {
        await tx.query(`INSERT INTO ${schema}.handled VALUES ($1)`, [eventId]);
        await point("in the writes");
      });
      await point("in the callback");
    },
  },
});
webhooks.start();
for (;;) {
  const { pending, processing, retrying } = await store.counts();
  if (pending + processing + retrying === 0) break;
  await sleep(50);
}
await webhooks.close();
await store.close();
await pool.end();
process.disconnect?.();
