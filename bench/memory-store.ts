// What claiming and settling costs in the memory store, by how much it holds: it should hardly depend on that.
import { type EventStore, memoryStore, type NewEvent, type Outcome } from "stayhook";
import { Rounds } from "./support/rounds.ts";

const ROUNDS = 15;
const lease = { limit: 10, leaseDuration: 60_000 };
const done = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 1 },
  record: { snapshot: { status: "Confirmed", fields: {} }, changed: true },
} as const satisfies Outcome;
let ids = 0;

function event(ref: string | null): NewEvent {
  const eventId = `0d4fd8a6-35a5-4f0c-9b0e-${(ids++).toString(16).padStart(12, "0")}`;
  return {
    eventId,
    ref,
    source: "webhook",
    topic: null,
    timestamp: "2026-05-01T12:00:00.000Z",
    notification: "{}",
  };
}

async function add(store: EventStore, count: number, ref: (index: number) => string): Promise<void> {
  for (let index = 0; index < count; index++) await store.add(event(ref(index)));
}

/** Takes `count` events to their end, and says what each cost, in µs. */
async function takeAll(store: EventStore, count: number): Promise<number> {
  let left = count;
  const start = performance.now();
  while (left > 0) {
    const claims = await store.claim({ ...lease, limit: Math.min(lease.limit, left) });
    if (claims.length === 0) throw new Error(`${left} events are missing`);
    for (const claim of claims) await store.settle(claim, done);
    left -= claims.length;
  }
  return ((performance.now() - start) * 1000) / count;
}

const bookings = (index: number): string => `booking:${index}`;
const one = (): string => "booking:one";

/** A store that has handled so many events, to which a round's events are added and taken away again. */
async function withDone(done: number): Promise<() => Promise<number>> {
  const store = memoryStore({ max: 1_000_000 });
  const perRound = 1_000;
  await add(store, done, bookings);
  await takeAll(store, done);
  return async () => {
    await add(store, perRound, bookings);
    const cost = await takeAll(store, perRound);
    await store.prune({ state: "done", age: 0, limit: perRound });
    return cost;
  };
}

/** A store in which so many events wait for one record, the handled ones replaced after each round. */
async function withPending(pending: number): Promise<() => Promise<number>> {
  const store = memoryStore();
  const perRound = 100;
  await add(store, pending, one);
  return async () => {
    const cost = await takeAll(store, perRound);
    await add(store, perRound, one);
    return cost;
  };
}

async function compare(title: string, cases: Readonly<Record<string, () => Promise<number>>>): Promise<void> {
  const rounds = new Rounds("µs");
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, run] of Object.entries(cases)) {
      const cost = await run();
      if (round > 0) rounds.add(name, cost);
    }
  }
  console.log(`${title}: claim and settle, median of ${ROUNDS} rounds`);
  rounds.print();
}

await compare("done events", { "1,000": await withDone(1_000), "100,000": await withDone(100_000) });
await compare("pending on one record", {
  "100": await withPending(100),
  "10,000": await withPending(10_000),
});
