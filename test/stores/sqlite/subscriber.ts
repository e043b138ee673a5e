/**
 * A process that receives and handles notifications. It writes a log for the test, and can kill itself at a point. It
 * ends when no work is left.
 */
import { appendFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { StayhookClient } from "../../../src/client/client.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";

/** Points at which the process can kill itself, in the order of an event's life. */
export type Point =
  | "before add"
  | "after add"
  | "after the answer"
  | "before fetch"
  | "after fetch"
  | "in the callback"
  | "before settle"
  | "before the commit of settle"
  | "after the commit of settle";

export interface SubscriberOptions {
  readonly file: string;
  readonly log: string;
  /** Event ids. The events belong to a few bookings. */
  readonly notifications: readonly string[];
  /** How far this process's clock is ahead, in ms. It makes the leases of earlier, dead processes expire at once. */
  readonly ahead: number;
  /** The process dies at the third pass of this point. At a commit, it dies if three settles have begun. */
  readonly dieAt?: Point;
}

const { file, log, notifications, ahead, dieAt }: SubscriberOptions = JSON.parse(process.argv[2]!);
const say = (what: string) => appendFileSync(log, `${what}\n`);

const now = Date.now;
Date.now = () => now() + ahead;

let passes = 0;
/** Kills the process at the third pass of `dieAt`. A commit can contain several settles, so `passed` counts them. */
function point(name: Point, passed?: number): void {
  if (name !== dieAt) return;
  passes += 1;
  if ((passed ?? passes) < 3) return;
  process.kill(process.pid, "SIGKILL");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const db = new DatabaseSync(file);
db.exec("PRAGMA busy_timeout = 5000; CREATE TABLE IF NOT EXISTS handled (event TEXT NOT NULL)");
const store = watchedStore(sqliteStore(db, { durability: "process-crash" }));

function watchedStore(real: EventStore<DatabaseSync>): EventStore<DatabaseSync> {
  let settling = 0;
  let settles = 0;
  const exec = db.exec.bind(db);
  db.exec = (sql) => {
    const commitsSettle = sql === "COMMIT" && settling > 0;
    if (commitsSettle) point("before the commit of settle", settles);
    exec(sql);
    if (commitsSettle) point("after the commit of settle", settles);
  };
  const watched: Partial<EventStore<DatabaseSync>> = {
    async add(event) {
      point("before add");
      const added = await real.add(event);
      point("after add");
      return added;
    },
    async settle(claim, outcome) {
      point("before settle");
      settling += 1;
      settles += 1;
      return real.settle(claim, outcome).finally(() => {
        settling -= 1;
      });
    },
  };
  return new Proxy(real, {
    get(target, name) {
      const value = watched[name as keyof typeof watched] ?? Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const client = new StayhookClient({
  baseUrl: "https://platform.test",
  accessToken: "token",
  async fetch(url) {
    point("before fetch");
    await sleep(1);
    const bookingCode = new URL(url).pathname.split("/").at(-1);
    return Response.json({ bookingCode, status: "Confirmed" });
  },
  onResponse: () => point("after fetch"),
});

const webhooks = createWebhookHandler({
  // A recheck runs no callback here, so its event would be done without a row in the table.
  recheckAfter: false,
  client,
  verify: false,
  store,
  on: {
    async fallback(event) {
      const { bookingCode } = event.notification as { readonly bookingCode: string };
      say(`began ${event.eventId} ${bookingCode} ${process.pid}`);
      event.atomically((tx) => void tx.prepare("INSERT INTO handled VALUES (?)").run(event.eventId));
      await sleep(2);
      point("in the callback");
      say(`ended ${event.eventId} ${bookingCode} ${process.pid}`);
    },
  },
});

webhooks.start();
process.send?.("ready");
await Promise.all(
  notifications.map(async (eventId, index) => {
    await sleep(3 * index);
    const bookingCode = `HM${index % 7}`;
    const body = JSON.stringify({ eventId, bookingCode, timestamp: "2026-03-01T10:00:00Z" });
    const { status } = await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
    say(`answered ${eventId} ${status}`);
    point("after the answer");
  }),
);
for (;;) {
  const { pending, processing, retrying } = await store.counts();
  if (pending + processing + retrying === 0) break;
  await sleep(20);
}
await webhooks.close();
await store.close();
db.close();
