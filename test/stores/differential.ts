// Compares a store with the memory store: both run the same random calls, and must give the same results.

import { expect, vi } from "vitest";
import type { ClaimedEvent, EventStore, NewEvent, Outcome } from "../../src/stores/event-store.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";

/** Returns random numbers from 0 to 1 that depend only on the seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

const START = Date.parse("2026-05-01T12:00:00.000Z");
const HOUR = 3_600_000;
const REFS = ["booking:A", "booking:B", "listing:\ud800", null] as const;

/**
 * Runs `steps` random calls on the store and on a memory store. Both read the faked `Date`. Prints the seed and the
 * calls if a result differs.
 */
export async function compareWithMemory(store: EventStore<unknown>, seed: number, steps: number) {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  const model = new MemoryStore();
  const run = new Comparison(store, model, seed);
  try {
    for (let step = 0; step < steps; step++) await run.step();
  } catch (error) {
    throw new Error(`seed ${seed}:\n${run.calls.join("\n")}`, { cause: error });
  } finally {
    vi.useRealTimers();
    await model.close();
  }
}

interface Pair {
  readonly ours: ClaimedEvent;
  readonly theirs: ClaimedEvent;
  /** Whether an earlier call of `settle` ended the attempt. */
  ended?: boolean;
}

class Comparison {
  readonly calls: string[] = [];
  readonly #store: EventStore<unknown>;
  readonly #model: EventStore<never>;
  readonly #random: () => number;
  #claims: Pair[] = [];
  #events = 0;

  constructor(store: EventStore<unknown>, model: EventStore<never>, seed: number) {
    this.#store = store;
    this.#model = model;
    this.#random = randomFrom(seed);
  }

  async step(): Promise<void> {
    // Each step has a time of its own, so that no two calls make events due at the same moment.
    vi.setSystemTime(Date.now() + this.#pick([1, 7, 50, 1000, HOUR / 2]));
    const ref = this.#pick(REFS);
    switch (this.#pick(STEPS)) {
      case "add": {
        const { event, ...options } = this.#addition(ref);
        return this.#same(`add ${JSON.stringify([event, options])}`, (s) => s.add(event, options));
      }
      case "claim":
        return this.#claim();
      case "settle":
        return this.#settle();
      case "renew": {
        const pairs = this.#claims.filter(() => this.#random() < 0.5);
        const [ours, theirs] = await Promise.all([
          this.#store.renew(
            pairs.map((pair) => pair.ours),
            2000,
          ),
          this.#model.renew(
            pairs.map((pair) => pair.theirs),
            2000,
          ),
        ]);
        this.calls.push(`renew ${pairs.map(({ ours }) => ours.eventId)}`);
        return expect(ours.map(({ eventId }) => eventId)).toEqual(theirs.map(({ eventId }) => eventId));
      }
      case "remove": {
        const what = this.#pick(["timers", [this.#ownId(), this.#ownId()]] as const);
        return ref === null ? undefined : this.#same(`remove ${ref} ${what}`, (s) => s.remove(ref, what));
      }
      case "change": {
        const filter = this.#pick([
          { state: "parked" },
          { state: "scheduled" },
          { state: "retrying" },
          { eventId: this.#id() },
          { ref: ref ?? "booking:A" },
          { source: "webhook" },
          { reason: "discarded" },
        ] as const);
        const change = this.#pick(["replay", "replay", "discard"] as const);
        return this.#same(`${change} ${JSON.stringify(filter)}`, (s) => s[change](filter));
      }
      case "erase":
        return ref === null
          ? undefined
          : this.#same(`erase ${ref}`, (s) => s.erase(ref).catch((error: Error) => error.message));
      case "learn": {
        const snapshot = { status: this.#pick(["Confirmed", "\ud800"]), fields: { nights: 2 } };
        return this.#same(`learn ${ref}`, (s) => s.learn(ref ?? "booking:C", snapshot));
      }
      case "prune": {
        const options = {
          state: this.#pick(["done", "parked"] as const),
          age: this.#pick([0, HOUR]),
          limit: 100,
        };
        return this.#same(`prune ${JSON.stringify(options)}`, (s) => s.prune(options));
      }
      case "pruneSnapshots":
        return this.#same("pruneSnapshots", (s) => s.pruneSnapshots({ age: HOUR, limit: 100 }));
      case "setBack":
        vi.setSystemTime(Date.now() - 3 * HOUR);
        return this.#same("the clock is set back", (s) => s.nextDue());
      case "restore": {
        const found = await this.#model.list({ limit: 50 });
        const events = found
          .filter(({ state }) => state !== "processing")
          .map((event) => {
            return this.#random() < 0.5 ? event : { ...event, eventId: `restored ${event.eventId}` };
          });
        return this.#same("restore", (s) => s.restore({ events, snapshots: [] }));
      }
    }
  }

  async #claim(): Promise<void> {
    const options = {
      limit: 100,
      leaseDuration: this.#pick([500, HOUR]),
      worker: this.#pick(["a:1", undefined]),
      ...(this.#random() < 0.2 && { eventId: this.#id() }),
    };
    this.calls.push(`${Date.now()} claim ${JSON.stringify(options)}`);
    const [ours, theirs] = await Promise.all([this.#store.claim(options), this.#model.claim(options)]);
    const sorted = [ours, theirs].map((claims) =>
      claims.toSorted((a, b) => (a.eventId < b.eventId ? -1 : 1)),
    );
    const withoutLease = sorted.map((claims) => claims.map(({ lease: _, ...claim }) => claim));
    expect(withoutLease[0]).toEqual(withoutLease[1]);
    this.#claims.push(...sorted[0]!.map((claim, index) => ({ ours: claim, theirs: sorted[1]![index]! })));
    await this.#compare();
  }

  async #settle(): Promise<void> {
    const pair = this.#pick(this.#claims);
    if (pair === undefined) return;
    const outcome = this.#outcome(pair.ours);
    this.calls.push(`${Date.now()} settle ${pair.ours.eventId} ${JSON.stringify(outcome)}`);
    const [ours, theirs] = await Promise.all([
      this.#store.settle(pair.ours, outcome),
      this.#model.settle(pair.theirs, outcome),
    ]);
    // A store forgets which lease a record had last when it deletes the record's row. So a repeated call may get `true`,
    // although another event of the record was claimed since.
    if (!(pair.ended && ours)) expect(ours).toBe(theirs);
    pair.ended ||= ours;
    // Keep some claims, so that their outcome is recorded again.
    if (this.#random() < 0.8) this.#claims = this.#claims.filter((each) => each !== pair);
    await this.#compare();
  }

  #outcome({ ref }: ClaimedEvent): Outcome {
    const entry = { duration: 5, error: "\ud800 and \0" };
    const further = {
      ...(this.#random() < 0.3 && {
        events: [1, 2].map(() => this.#addition(this.#random() < 0.8 ? ref : this.#pick(REFS))),
      }),
      ...(this.#random() < 0.2 && {
        remove: this.#pick(["timers", [this.#ownId(), this.#ownId()]] as const),
      }),
    };
    const snapshot = { status: this.#pick(["Confirmed", "Cancelled"]), fields: { nights: 2, name: "\0" } };
    const record = { snapshot, changed: this.#random() < 0.5 };
    return this.#pick<Outcome>([
      { state: "done", type: "booking.Confirmed", entry, ...further },
      { state: "done", type: "booking.Confirmed", entry, record, ...further },
      {
        state: "retrying",
        in: this.#pick([0, 100, HOUR]),
        counted: true,
        reason: "callback",
        entry,
        ...further,
      },
      {
        state: "retrying",
        in: this.#pick([100, HOUR]),
        counted: false,
        reason: "unavailable",
        entry,
        ...further,
      },
      { state: "parked", reason: "invalid-record", type: "booking.\ud800", entry, ...further },
      { state: "released" },
    ]);
  }

  async #same(call: string, run: (store: EventStore<unknown>) => Promise<unknown>): Promise<void> {
    this.calls.push(`${Date.now()} ${call}`);
    const [ours, theirs] = await Promise.all([run(this.#store), run(this.#model as EventStore<unknown>)]);
    expect(ours).toEqual(theirs);
    await this.#compare();
  }

  /** Compares everything that the two stores tell. */
  async #compare(): Promise<void> {
    const [ours, theirs] = await Promise.all([told(this.#store), told(this.#model as EventStore<unknown>)]);
    expect(ours).toEqual(theirs);
  }

  #event(ref: string | null): NewEvent {
    const eventId = this.#random() < 0.6 ? this.#newId() : this.#id();
    return {
      eventId,
      ref,
      // Only events of the package itself are replaced or removed, so `lastReceivedAt` needs to know no others.
      source: eventId.startsWith("stayhook:")
        ? this.#pick(["reconcile", "recheck", "timer"] as const)
        : "webhook",
      topic: this.#pick([null, "bookings"]),
      timestamp: this.#pick(["2026-03-01T10:00:00.000Z", "2026-03-02T10:00:00.000Z"]),
      notification: this.#pick([null, "{}", "\ud800", "\0"]),
    };
  }

  #addition(ref: string | null) {
    const event = this.#event(ref);
    const replace = this.#pick(["ended", "moved", undefined] as const);
    return {
      event,
      ...(this.#random() < 0.4 && { dueIn: this.#pick([0, 100, HOUR]) }),
      ...(event.source !== "webhook" && replace && { replace }),
    };
  }

  #newId(): string {
    this.#events += 1;
    return this.#id();
  }

  #id(): string {
    const number = Math.max(1, this.#events - Math.floor(this.#random() * 4));
    return number % 3 === 0
      ? `stayhook:recheck:${number}`
      : `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
  }

  #ownId(): string {
    const number = Math.max(3, this.#events - Math.floor(this.#random() * 6));
    return `stayhook:recheck:${number - (number % 3)}`;
  }

  #pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random() * values.length)]!;
  }
}

const STEPS = [
  ...([
    "add",
    "add",
    "add",
    "add",
    "add",
    "claim",
    "claim",
    "claim",
    "settle",
    "settle",
    "settle",
    "settle",
  ] as const),
  ...([
    "renew",
    "remove",
    "change",
    "erase",
    "learn",
    "prune",
    "pruneSnapshots",
    "setBack",
    "restore",
  ] as const),
];

async function told(store: EventStore<unknown>) {
  const snapshots = [];
  for await (const { seenAt: _, ...snapshot } of store.snapshots()) snapshots.push(snapshot);
  snapshots.sort((a, b) => (a.ref < b.ref ? -1 : 1));
  return {
    events: await store.list({ limit: 1000 }),
    counts: await store.counts(),
    snapshots,
    nextDue: await store.nextDue(),
    oldestWaiting: await store.oldestWaiting(),
    lastReceivedAt: await store.lastReceivedAt(),
  };
}
