// Measures timers: `node bench/timers.ts [store …]`, after `npx tsup --no-dts`. Prints, for each store, what an event costs
// that sets two timers, and how late timers start that come due at 200 a second while 100,000 wait.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient } from "stayhook";
import type { EventStore } from "stayhook/store";
import { storedEvent } from "../test/stores/event.ts";
import { postgresUrl } from "../test/support/postgres-server.ts";
import { openStore, type StoreName } from "./open-store.ts";

process.env.BENCH_SERVERS = JSON.stringify({ postgres: (await postgresUrl()) ?? "", redis: "", mysql: "" });

const DAY = 86_400_000;
const ROUNDS = 7;
const EVENTS = 1000;
const SCHEDULED = 100_000;
const [PER_SECOND, SECONDS] = [200, 10];

const client = new StayhookClient({
  baseUrl: "https://platform.example",
  accessToken: "token",
  fetch: async (url) =>
    Response.json({ bookingCode: new URL(url).pathname.split("/").at(-1), status: "Confirmed" }),
});
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const quiet = { client, verify: false, autoStart: false, logger: () => {} } as const;

/** Returns how long it takes to handle events of different bookings, each with this number of timers, in ms. */
async function handle(store: EventStore<never>, timers: number): Promise<number> {
  const timestamp = new Date().toISOString();
  for (let n = 0; n < EVENTS; n += 100)
    await Promise.all(
      Array.from({ length: 100 }, () => {
        const [eventId, ref] = [randomUUID(), `booking:${randomUUID()}`];
        return store.add({ eventId, ref, source: "webhook", topic: null, timestamp, notification: "{}" });
      }),
    );
  let left = EVENTS;
  const ended = Promise.withResolvers<void>();
  const at = new Date(Date.now() + DAY);
  const webhooks = createWebhookHandler({
    ...{ ...quiet, store, recheckAfter: false },
    on: {
      "booking.Confirmed": (event) => {
        for (let n = 0; n < timers; n += 1) event.timers.set(`timer-${n}`, at);
      },
      fallback: () => {},
    },
    observe: ({ kind }) => {
      if (kind === "done" && --left === 0) ended.resolve();
    },
  });
  const start = performance.now();
  webhooks.start();
  await ended.promise;
  const ms = performance.now() - start;
  await webhooks.close();
  return ms;
}

async function ratioOf(name: StoreName): Promise<string> {
  const { store, close } = await openStore(name);
  const [plain, timed]: [number[], number[]] = [[], []];
  await handle(store, 2); // warm
  for (let round = 0; round < ROUNDS; round += 1) {
    plain.push(await handle(store, 0));
    timed.push(await handle(store, 2));
  }
  await close();
  const rate = (times: number[]) => `${Math.round((EVENTS / median(times)) * 1000)}/s`;
  return `without ${rate(plain)}, with two timers ${rate(timed)}: ${(median(timed) / median(plain)).toFixed(2)}`;
}

/** Records scheduled timers of different bookings. */
async function schedule(store: EventStore<never>, count: number, dueAt: (n: number) => number) {
  const receivedAt = new Date();
  for (let from = 0; from < count; from += 1000) {
    const events = Array.from({ length: Math.min(1000, count - from) }, (_, index) => {
      const [ref, at] = [`booking:${randomUUID()}`, new Date(dueAt(from + index))];
      const [timestamp, notification] = [at.toISOString(), JSON.stringify({ name: "timer", at })];
      const eventId = `stayhook:timer:${ref}:timer`;
      return storedEvent({
        ...{ eventId, ref, source: "timer", timestamp, notification },
        ...{ state: "scheduled", receivedAt, dueAt: at },
      });
    });
    await store.restore({ events, snapshots: [] });
  }
}

/** Counts the calls that look for work. */
function counted(store: EventStore<never>) {
  const calls = { claim: 0, nextDue: 0 };
  const proxy = new Proxy(store, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (key === "claim" || key === "nextDue") calls[key] += 1;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { calls, proxy };
}

async function latenessOf(name: StoreName): Promise<string> {
  const { store, close } = await openStore(name);
  const { calls, proxy } = counted(store);
  const late: number[] = [];
  const webhooks = createWebhookHandler({
    ...{ ...quiet, store: proxy },
    on: { "booking.timer.timer": () => {} },
    observe: (event) => {
      if (event.kind === "started" && event.lateness !== undefined) late.push(event.lateness);
    },
  });
  const idle = async (): Promise<string> => {
    const [claims, asks] = [calls.claim, calls.nextDue];
    await sleep(10_000);
    return `${calls.claim - claims} claims and ${calls.nextDue - asks} nextDue`;
  };
  webhooks.start();
  await sleep(500);
  const empty = await idle();
  await schedule(store, SCHEDULED - PER_SECOND * SECONDS, () => Date.now() + DAY * (1 + Math.random()));
  await sleep(1000);
  const waiting = await idle();
  const start = Date.now() + 3000;
  await schedule(store, PER_SECOND * SECONDS, (n) => start + (n * 1000) / PER_SECOND);
  await sleep(start - Date.now() + SECONDS * 1000 + 3000);
  const sorted = late.toSorted((a, b) => a - b);
  const at = (share: number) =>
    `${sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]} ms`;
  await webhooks.close();
  await close();
  return `${late.length} of ${PER_SECOND * SECONDS} started; late: median ${at(0.5)}, 99 % ${at(0.99)}, at most ${at(1)}. Idle for 10 s: ${empty}; with ${SCHEDULED} scheduled: ${waiting}`;
}

const given = process.argv.slice(2) as StoreName[];
for (const name of given.length > 0 ? given : (["memory", "SQLite", "PostgreSQL"] as const)) {
  console.log(`${name}: ${await ratioOf(name)}`);
  console.log(`${name}: ${await latenessOf(name)}`);
}
process.exit();
