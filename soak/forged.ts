// Measures how long a genuine event waits during a flood of forged notifications.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, memoryStore, StayhookClient, type WebhookHandler } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import type { Row } from "./table.ts";

const SECOND = 1000;
/** The platform's response time, in ms. */
const LATENCY = 30;

interface Load {
  readonly name: string;
  readonly atOnce: number;
  readonly perSecond: number;
  /** How long forged notifications arrive, in ms. */
  readonly lasts: number;
  /** The longest allowed wait of a genuine event, in ms. */
  readonly limit: number;
}

const loads: readonly Load[] = [
  { name: "300 at once", atOnce: 300, perSecond: 0, lasts: 10 * SECOND, limit: 15 * SECOND },
  { name: "20/s for 30 s", atOnce: 0, perSecond: 20, lasts: 30 * SECOND, limit: 15 * SECOND },
  { name: "200/s for 30 s", atOnce: 0, perSecond: 200, lasts: 30 * SECOND, limit: 180 * SECOND },
];

const stores: Readonly<Record<string, (folder: string) => EventStore<never>>> = {
  memory: () => memoryStore(),
  SQLite: (folder) => sqliteStore(join(folder, `${randomUUID()}.db`)) as EventStore<never>,
};

/** Makes handlers and decides which of them process events. Returns the receiver, and a function that closes them. */
type Layout = (make: () => WebhookHandler) => { receiver: WebhookHandler; end: () => Promise<void> };

const layouts: Readonly<Record<string, Layout>> = {
  "one process": (make) => {
    const handler = make();
    handler.start();
    return { receiver: handler, end: () => handler.close() };
  },
  "receiver and worker apart": (make) => {
    const [receiver, worker] = [make(), make()];
    worker.start();
    return {
      receiver,
      end: async () => {
        await Promise.all([receiver.close(), worker.close()]);
      },
    };
  },
  "drain every second": (make) => {
    const handler = make();
    let over = false;
    const draining = (async () => {
      while (!over) {
        await handler.drain({ timeout: 30 * SECOND });
        await sleep(SECOND);
      }
    })();
    return {
      receiver: handler,
      end: async () => {
        over = true;
        await handler.close();
        await draining;
      },
    };
  },
};

/** Makes a platform that knows only the genuine bookings. It measures how long each of them waited. */
function platform() {
  const sentAt = new Map<string, number>();
  const waits = new Map<string, number>();
  const reads: number[] = [];
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "token",
    async fetch(url) {
      reads.push(performance.now());
      await sleep(LATENCY);
      const bookingCode = new URL(url).pathname.split("/").at(-1) ?? "";
      const body = sentAt.has(bookingCode) ? { bookingCode, status: "Confirmed" } : {};
      return Response.json(body, { status: sentAt.has(bookingCode) ? 200 : 404 });
    },
  });
  const make = (store: EventStore<never>): WebhookHandler =>
    createWebhookHandler({
      client,
      store,
      autoStart: false,
      verify: () => true,
      logger: () => {},
      on: {
        "booking.Confirmed": ({ booking: { bookingCode } }) => {
          waits.set(bookingCode, performance.now() - (sentAt.get(bookingCode) ?? 0));
        },
      },
    });
  return { make, sentAt, waits, reads };
}

async function deliver(receiver: WebhookHandler, bookingCode: string): Promise<void> {
  const notification = { eventId: randomUUID(), timestamp: new Date(), bookingCode, listingId: null };
  const body = JSON.stringify(notification);
  const { status } = await receiver.fetch(
    new Request("https://subscriber.example", { method: "POST", body }),
  );
  if (status !== 200) throw new Error(`a notification was answered ${status}`);
}

async function run(load: Load, layout: Layout, store: EventStore<never>): Promise<Row> {
  const { make, sentAt, waits, reads } = platform();
  const { receiver, end } = layout(() => make(store));
  const startedAt = performance.now();
  const elapsed = () => performance.now() - startedAt;
  let forged = 0;
  let genuine = 0;
  const forge = () => deliver(receiver, `FORGED${forged++}`);
  await Promise.all(Array.from({ length: load.atOnce }, forge));
  while (elapsed() < load.lasts) {
    const due = Math.floor((elapsed() / SECOND) * load.perSecond) + load.atOnce - forged;
    await Promise.all(Array.from({ length: Math.max(0, due) }, forge));
    if (elapsed() >= genuine * 2 * SECOND) {
      const code = `GENUINE${genuine++}`;
      sentAt.set(code, performance.now());
      await deliver(receiver, code);
    }
    await sleep(5);
  }
  while (waits.size < genuine && elapsed() < load.lasts + load.limit) await sleep(50);
  await end();
  await store.close();
  const sorted = [...waits.values()].sort((a, b) => a - b);
  const longest = waits.size < genuine ? Number.POSITIVE_INFINITY : (sorted.at(-1) ?? 0);
  return {
    cells: {
      forged: String(forged),
      handled: `${waits.size}/${genuine}`,
      median: seconds(sorted[Math.floor(sorted.length / 2)]),
      longest: seconds(longest),
      limit: seconds(load.limit),
      "reads/s": String(mostInASecond(reads)),
    },
    failed: longest > load.limit,
  };
}

function seconds(ms: number | undefined): string {
  return ms === undefined || ms === Number.POSITIVE_INFINITY ? "never" : `${(ms / SECOND).toFixed(2)} s`;
}

function mostInASecond(times: readonly number[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < times.length; last += 1) {
    while (times[last]! - times[first]! >= SECOND) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/** Runs the loads in turn, each on all stores and layouts at the same time. Takes at most about 5 minutes. */
export async function forged(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "stayhook-soak-"));
  const rows: Row[] = [];
  try {
    for (const load of loads) {
      const runs = Object.entries(stores).flatMap(([store, create]) =>
        Object.entries(layouts).map(async ([name, layout]) => {
          const { cells, failed } = await run(load, layout, create(folder));
          return { cells: { load: load.name, store, layout: name, ...cells }, failed };
        }),
      );
      rows.push(...(await Promise.all(runs)));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return rows;
}
