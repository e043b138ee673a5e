/**
 * A process that receives notifications, and handles all due events. Its callbacks write to tables of the user. At a
 * point it dies, or says so and freezes until the test lets it continue. It ends when no work is left.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { StayhookClient } from "../../../src/client/client.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";
import { openPlace } from "./open-place.ts";
import type { WorkerPlace } from "./stores.ts";

export type Point = "in the callback" | "in the writes" | "before the commit" | "after the commit";

export interface WorkerOptions {
  readonly place: WorkerPlace;
  /** The ids of the notifications that the process receives. It sends the test each id that it has answered with 200. */
  readonly receives?: readonly string[];
  /** The point at which the process dies or freezes, when it gets there for the second time. */
  readonly standAt?: Point | undefined;
  /** Whether the process kills itself at `standAt`. Otherwise it says so and freezes. */
  readonly dies?: boolean;
  /** How far the worker's clock is ahead of the machine's clock, in ms. */
  readonly ahead: number;
  readonly leaseDuration: number;
  readonly concurrency: number;
}

const options: WorkerOptions = JSON.parse(process.argv[2]!);
const { place, receives = [], standAt, dies, ahead, leaseDuration, concurrency } = options;
const now = Date.now;
Date.now = () => now() + ahead;

let passed = 0;
/** Synchronous where the process dies, because the writes of SQLite are synchronous. */
function point(name: Point): void | Promise<void> {
  if (name !== standAt) return;
  passed += 1;
  if (passed !== 2) return;
  if (dies) process.kill(process.pid, "SIGKILL");
  const continued = new Promise<void>((resolve) => process.once("message", () => resolve()));
  // The process freezes itself, because a signal of the test could meet it in a transaction that locks all of SQLite.
  process.send?.(name, () => process.kill(process.pid, "SIGSTOP"));
  return continued;
}

const { store, run, write, end } = await openPlace(place, standAt?.endsWith("commit") ? point : undefined);
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: "https://platform.test",
    accessToken: "token",
    fetch: async (path) =>
      Response.json({ bookingCode: new URL(path).pathname.split("/").at(-1), status: "Confirmed" }),
  }),
  store: store as EventStore<{ readonly tx: unknown }>,
  verify: false,
  leaseDuration,
  concurrency,
  recheckAfter: false,
  backoff: () => 100,
  logger: ({ level, message }) => {
    if (level === "error") console.error(message);
  },
  on: {
    async fallback({ eventId, atomically }) {
      await run(`INSERT INTO begun VALUES ('${eventId}')`);
      atomically((tx) => {
        const writing = write(tx, `INSERT INTO handled VALUES ('${eventId}')`);
        return writing instanceof Promise ? writing.then(() => point("in the writes")) : undefined;
      });
      await point("in the callback");
    },
  },
});

webhooks.start();
process.send?.("started");
for (const [index, eventId] of receives.entries()) {
  const body = JSON.stringify({ eventId, bookingCode: `HM${index % 7}`, timestamp: "2026-03-01T10:00:00Z" });
  const { status } = await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
  if (status === 200) process.send?.(eventId);
}
for (const until = now() + 60_000; now() < until; await sleep(50)) {
  // A call of a process that was frozen may have timed out.
  const counts = await store.counts().catch(() => undefined);
  if (counts && counts.pending + counts.processing + counts.retrying === 0) break;
}
await webhooks.close();
await store.close();
await end();
process.disconnect?.();
