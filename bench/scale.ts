// Compares a store with a million events to the same store with 10,000. A tenth of the events wait.
import { randomUUID } from "node:crypto";
import { createWebhookHandler, StayhookClient } from "stayhook";
import { createConsole } from "stayhook/console";
import type { EventStore, RecordSnapshot, StoredEvent } from "stayhook/store";
import { storedEvent } from "../test/stores/event.ts";
import { openStore, type StoreName } from "./open-store.ts";
import type { Section } from "./report.ts";
import { median } from "./rounds.ts";

/** The memory store keeps only 100,000 done events, and MariaDB takes too long to fill. */
const names: readonly StoreName[] = ["SQLite", "PostgreSQL", "Redis"];
const steps = ["add", "claim", "settle", "list", "console"] as const;
type Step = (typeof steps)[number];

/** One event in `WAITING` waits. Each record has `OF_RECORD` events. */
const [WAITING, OF_RECORD] = [10, 5];
const [BATCH, BATCHES_AT_ONCE] = [1000, 4];
/** The number of events in a group, the number of groups without a measurement, and with one. */
const [GROUP, WARM, TIMES] = [20, 20, 200];
const SNAPSHOT = { status: "Confirmed", fields: { checkIn: "2026-07-01" } };

export async function scale(sizes: readonly [number, number], only?: readonly string[]): Promise<Section> {
  const rows: Section["rows"][number][] = [];
  for (const name of names.filter((each) => !only || only.includes(each))) {
    const [few, many] = [await measure(name, sizes[0]), await measure(name, sizes[1])];
    for (const step of steps) {
      rows.push({
        label: `${name}, ${step}`,
        ours: true,
        ratio: many[step] / few[step],
        goal: { most: 2 },
        figures: [few, many].map((times) => `${times[step].toFixed(2)} ms`),
      });
    }
  }
  const [few, many] = sizes.map((size) => size.toLocaleString("en"));
  return {
    name: "scale",
    title: "Many events",
    text:
      `The time of a call in a store with ${few} and with ${many} events, of which a tenth wait. The ratio compares ` +
      `both times. Less is better. \`add\`, \`claim\` and \`settle\` handle a group of ${GROUP} events. \`list\` is ` +
      "`stayhook events ls --ref` for one booking, and `console` is the console's first page.",
    columns: ["ratio", "goal", `${few} events`, `${many} events`],
    rows,
  };
}

async function measure(name: StoreName, size: number): Promise<Record<Step, number>> {
  const { store, close } = await openStore(name);
  try {
    await fill(store, size);
    return await timesOf(store, size);
  } finally {
    await close();
  }
}

async function timesOf(store: EventStore<never>, size: number): Promise<Record<Step, number>> {
  const took: Record<Step, number[]> = { add: [], claim: [], settle: [], list: [], console: [] };
  const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "token" });
  const webhooks = createWebhookHandler({ client, store, on: {}, verify: false, autoStart: false });
  const inbox = createConsole(webhooks, { authorize: () => true });
  for (let time = -WARM; time < TIMES; time += 1) {
    const timed = async <T>(step: Step, run: () => Promise<T>): Promise<T> => {
      const start = performance.now();
      const result = await run();
      if (time >= 0) took[step].push(performance.now() - start);
      return result;
    };
    const fresh = Array.from({ length: GROUP }, () => eventOf(`N${Math.floor(Math.random() * size)}`));
    await timed("add", () => Promise.all(fresh.map((event) => store.add(event))));
    const claims = await timed("claim", () => store.claim({ limit: GROUP, leaseDuration: 60_000 }));
    const record = { snapshot: SNAPSHOT, changed: false };
    const done = { state: "done", type: "booking.Confirmed", entry: { duration: 20 }, record } as const;
    await timed("settle", () => Promise.all(claims.map((claim) => store.settle(claim, done))));
    const ref = refOf(Math.floor(Math.random() * (size / OF_RECORD)));
    await timed("list", () => store.list({ ref, limit: 50 }));
    // The page costs many times a call of the store.
    if (time % 5 !== 0) continue;
    const page = await timed("console", () => inbox.fetch(new Request("http://localhost/")));
    if (page.status !== 200) throw new Error(`the console answered ${page.status}`);
    await page.text();
  }
  await webhooks.close();
  return Object.fromEntries(steps.map((step) => [step, median(took[step])])) as Record<Step, number>;
}

/** Restores events, because adding and handling them would take hours. */
async function fill(store: EventStore<never>, size: number): Promise<void> {
  const restore = async (from: number): Promise<void> => {
    for (let first = from * BATCH; first < size; first += BATCH * BATCHES_AT_ONCE) {
      const indexes = Array.from({ length: Math.min(BATCH, size - first) }, (_, index) => first + index);
      await store.restore({
        events: indexes.map(eventAt),
        snapshots: indexes.filter((index) => index % OF_RECORD === 0).map(snapshotOf),
      });
    }
  };
  await Promise.all(Array.from({ length: BATCHES_AT_ONCE }, (_, index) => restore(index)));
}

const refOf = (record: number): string => `booking:HM${String(record).padStart(8, "0")}`;

function snapshotOf(index: number): RecordSnapshot {
  return { ref: refOf(index / OF_RECORD), snapshot: SNAPSHOT, sequence: 1, seenAt: new Date() };
}

function eventAt(index: number): StoredEvent {
  const isWaiting = index % WAITING === 0;
  const receivedAt = new Date(Date.now() - 86_400_000 + index);
  const doneAt = new Date(receivedAt.getTime() + 1000);
  return storedEvent({
    ...eventOf(String(Math.floor(index / OF_RECORD)).padStart(8, "0")),
    state: isWaiting ? "pending" : "done",
    attempts: isWaiting ? 0 : 1,
    receivedAt,
    dueAt: isWaiting ? receivedAt : null,
    doneAt: isWaiting ? null : doneAt,
    type: isWaiting ? null : "booking.Confirmed",
    reason: null,
    history: isWaiting ? [] : [{ at: receivedAt, duration: 1000, outcome: "done" }],
  });
}

function eventOf(number: string) {
  const [eventId, bookingCode, timestamp] = [randomUUID(), `HM${number}`, "2026-03-01T10:00:00.000Z"];
  const notification = JSON.stringify({ eventId, bookingCode, listingId: null, timestamp });
  const event = { source: "webhook", topic: null, timestamp, notification, traceparent: null } as const;
  return { eventId, ref: `booking:${bookingCode}`, ...event };
}
