// Measures stores alone: adds in groups, and the claim and the end of one event.
import { randomUUID } from "node:crypto";
import type { EventStore, NewEvent, Outcome } from "stayhook/store";
import { openStore, storeNames } from "./open-store.ts";
import type { Section } from "./report.ts";
import { median } from "./rounds.ts";

const GROUP = 50;
const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 20 },
  record: { snapshot: { status: "Confirmed", fields: { checkIn: "2026-07-01" } }, changed: true },
} as const satisfies Outcome;

interface Measured {
  readonly addsPerSecond: number;
  /** The time to claim and end one event, in ms. */
  readonly claim: number;
  /** The same time behind a backlog of another record, in ms. */
  readonly crowded: number;
}

export async function stores(rounds: number, of: readonly string[] = storeNames): Promise<Section> {
  const names = storeNames.filter((name) => of.includes(name));
  const open = await Promise.all(names.map((name) => openStore(name)));
  const results = names.map((): Measured[] => []);
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, { store }] of open.entries()) {
      const measured = await measure(store, 1000, 50, 500);
      if (round > 0) results[index]!.push(measured);
    }
  }
  for (const { close } of open) await close();
  const medianOf = (index: number, key: keyof Measured): number =>
    median(results[index]!.map((each) => each[key]));
  return {
    name: "stores",
    title: "Stores by themselves",
    text:
      `\`adds\` is the number of events added per second, in groups of ${GROUP}. \`claim and end\` is the time to ` +
      "claim one event and mark it as done. `behind a crowd` is the same time while 500 events of another booking " +
      `wait. The ratio compares \`adds\` of each store with \`adds\` of ${names[0]}.`,
    columns: ["ratio", "goal", "adds", "claim and end", "behind a crowd"],
    rows: names.map((label, index) => ({
      label,
      ours: true,
      ratio: medianOf(index, "addsPerSecond") / medianOf(0, "addsPerSecond"),
      figures: [
        `${Math.round(medianOf(index, "addsPerSecond"))}/s`,
        `${medianOf(index, "claim").toFixed(2)} ms`,
        `${medianOf(index, "crowded").toFixed(2)} ms`,
      ],
    })),
  };
}

async function measure(
  store: EventStore<never>,
  adds: number,
  claims: number,
  crowd: number,
): Promise<Measured> {
  const start = performance.now();
  for (let added = 0; added < adds; added += GROUP) await addGroup(store, GROUP);
  const addsPerSecond = (adds / (performance.now() - start)) * 1000;
  await takeAll(store);
  const claim = await claimOne(store, claims);
  for (let added = 0; added < crowd; added += GROUP) await addGroup(store, GROUP, "booking:CROWD");
  const crowded = crowd === 0 ? claim : await claimOne(store, claims);
  await store.discard({ ref: "booking:CROWD" });
  return { addsPerSecond, claim, crowded };
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
    const claims = await store.claim({ limit: 100, leaseDuration: 60_000 });
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
