// Calls one store, in its own process: `node store-calls.ts <store>`.
import { randomUUID } from "node:crypto";
import type { EventStore, NewEvent, Outcome } from "stayhook/store";
import { answerCalls } from "./calls.ts";
import { type OpenStore, openStore, type StoreName } from "./open-store.ts";
import { median, type Sample } from "./rounds.ts";

const GROUP = 50;
/** The number of claims at once, as a queue with ten slots makes them. */
const CLAIMED = 10;
const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 20 },
  record: { snapshot: { status: "Confirmed", fields: { checkIn: "2026-07-01" } }, changed: true },
} as const satisfies Outcome;

export interface Measured {
  readonly adds: Sample;
  /** Claims of several events, and the end of each. */
  readonly claims: Sample;
  /** The time to claim and end one event, in ms. */
  readonly claim: number;
  /** The same time behind a backlog of another record, in ms. */
  readonly crowded: number;
}

let open: OpenStore | undefined;

async function measure(adds: number, single: number, crowd: number): Promise<Measured> {
  open ??= await openStore(process.argv[2] as StoreName);
  const { store } = open;
  const added = await sampleOf(adds, async () => {
    for (let done = 0; done < adds; done += GROUP) await addGroup(store, GROUP);
  });
  const claims = await sampleOf(adds, () => takeAll(store));
  const claim = await claimOne(store, single);
  for (let done = 0; done < crowd; done += GROUP) await addGroup(store, GROUP, "booking:CROWD");
  const crowded = await claimOne(store, single);
  await store.discard({ ref: "booking:CROWD" });
  return { adds: added, claims, claim, crowded };
}

async function sampleOf(count: number, run: () => Promise<void>): Promise<Sample> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await run();
  const took = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: (count / took) * 1000, cpu: (user + system) / count };
}

async function addGroup(store: EventStore<never>, count: number, ref?: string): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => store.add(newEvent(ref))));
}

async function claimOne(store: EventStore<never>, times: number): Promise<number> {
  const took: number[] = [];
  for (let time = 0; time < times; time += 1) {
    await store.add(newEvent());
    const start = performance.now();
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    await store.settle(claim!, DONE);
    took.push(performance.now() - start);
  }
  return median(took);
}

async function takeAll(store: EventStore<never>): Promise<void> {
  for (;;) {
    const claims = await store.claim({ limit: CLAIMED, leaseDuration: 60_000 });
    if (claims.length === 0) return;
    await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
  }
}

function newEvent(ref?: string): NewEvent {
  const eventId = randomUUID();
  const bookingCode = `HM${String(Math.floor(Math.random() * 2000)).padStart(8, "0")}`;
  const timestamp = "2026-03-01T10:00:00.000Z";
  const notification = JSON.stringify({ eventId, bookingCode, listingId: null, timestamp });
  const event = { source: "webhook", topic: null, timestamp, notification } as const;
  return { eventId, ref: ref ?? `booking:${bookingCode}`, ...event };
}

const functions = { measure };
export type StoreFunctions = typeof functions;
answerCalls(functions, () => open?.close());
