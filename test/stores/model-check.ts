import fc from "fast-check";
import { expect, vi } from "vitest";
import type {
  ClaimedEvent,
  EventState,
  EventStore,
  FailureReason,
  NewEvent,
  Outcome,
} from "../../src/stores/event-store.ts";
import { ModelStore } from "./model.ts";

const REFS = [null, "booking:A", "booking:B", "listing:1"];
const START = 1_000_000;

/** A store that is held against the model. */
export interface Checked {
  create(): EventStore<unknown>;
  /** Done events that it keeps. */
  readonly max: number;
  /** What it prunes first of what ended in the same millisecond. */
  readonly sameTime: "first ended" | "first added";
  readonly numRuns: number;
}

const duration = fc.constantFrom(1, 5, 20, 50);
const wait = fc.constantFrom(0, 5, 20, 50);
const age = fc.constantFrom(0, 10, 50);
const eventId = fc.integer({ min: 0, max: 11 }).map((number) => `event ${number}`);
const reason = fc.constantFrom<FailureReason>("callback", "not-found");
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 });

const outcome: fc.Arbitrary<Outcome<unknown>> = fc.oneof(
  fc.record({
    state: fc.constant("done" as const),
    type: fc.constant("booking.Confirmed"),
    status: maybe(fc.constantFrom("Request", "Confirmed")),
  }),
  fc.record({
    state: fc.constant("retrying" as const),
    in: wait,
    counted: fc.boolean(),
    reason,
    error: fc.constantFrom("one", "other"),
    type: maybe(fc.constant("booking.Request")),
  }),
  fc.record({ state: fc.constant("parked" as const), reason, error: fc.constant("parked") }),
  fc.constant({ state: "released" as const }),
);

/** Counted back from the latest claim: mostly a fresh one, now and then one that is settled or lost. */
const recent = fc.oneof({ weight: 4, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(30) });

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ does: fc.constant("add" as const), eventId, ref: fc.nat(3) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      does: fc.constant("claim" as const),
      limit: fc.constantFrom(0, 1, 1, 2, 3),
      leaseDuration: duration,
      // Mostly none: it finds little.
      eventId: fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: eventId }),
      retriesFirst: maybe(fc.boolean()),
    }),
  },
  { weight: 8, arbitrary: fc.record({ does: fc.constant("settle" as const), claim: recent, outcome }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("renew" as const), mask: fc.nat(255), duration }) },
  { weight: 4, arbitrary: fc.record({ does: fc.constant("pass" as const), ms: fc.constantFrom(1, 5, 30) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("replay" as const), eventId }) },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("replayParked" as const),
      reason: maybe(reason),
      before: maybe(fc.integer({ min: 0, max: 100 })),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("prune" as const),
      state: fc.constantFrom("done" as const, "parked" as const),
      reason: maybe(reason),
      age,
      limit: fc.nat(3),
    }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("pruneRecords" as const), age }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Walks at random through a store and the model, and compares all that can be seen of them after each step. */
export async function checkAgainstModel({ create, max, sameTime, numRuns }: Checked): Promise<void> {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  try {
    const walk = fc.asyncProperty(fc.array(step, { maxLength: 80, size: "max" }), async (steps) => {
      vi.setSystemTime(START);
      const store = create();
      try {
        await walkAlong(steps, store, new ModelStore(max, sameTime, () => Date.now()));
      } finally {
        await store.close();
      }
    });
    await fc.assert(walk, { numRuns });
  } finally {
    vi.useRealTimers();
  }
}

async function walkAlong(
  steps: readonly Step[],
  store: EventStore<unknown>,
  model: ModelStore,
): Promise<void> {
  const claims: Pair[] = [];
  for (const each of steps) {
    const before = await store.nextDue();
    let woken = false;
    const end = store.subscribe?.(() => {
      woken = true;
    });
    await run(each, store, model, claims);
    end?.();
    await expectSame(store, model);
    // Time alone wakes nobody, nor does who cuts his own lease short.
    if (each.does === "pass" || each.does === "renew") continue;
    const sooner = ((await store.nextDue()) ?? Infinity) < (before ?? Infinity);
    if (sooner) expect(woken).toBe(true);
  }
}

/** The same claim in the store and in the model, which have names of their own for a lease. */
interface Pair {
  readonly real: ClaimedEvent;
  readonly model: string;
}

async function run(each: Step, store: EventStore<unknown>, model: ModelStore, claims: Pair[]): Promise<void> {
  switch (each.does) {
    case "add": {
      const event = newEvent(each.eventId, REFS[each.ref]!);
      expect(await store.add(event)).toBe(model.add(event));
      return;
    }
    case "claim": {
      const { does: _, ...options } = each;
      const real = await store.claim(options);
      const expected = model.claim(options);
      expect(real.map(({ lease: _, ...rest }) => rest)).toEqual(
        expected.map(({ lease: _, ...rest }) => rest),
      );
      claims.push(...real.map((claim, index) => ({ real: claim, model: expected[index]!.lease })));
      return;
    }
    case "settle": {
      const claim = claims.at(-1 - each.claim);
      if (claim === undefined) return;
      expect(await store.settle(claim.real, each.outcome)).toBe(model.settle(claim.model, each.outcome));
      return;
    }
    case "renew": {
      const some = claims.filter((_, index) => (each.mask >> (index % 8)) % 2 === 0);
      const expected = some.filter((claim) => model.renew(claim.model, each.duration));
      const renewed = await store.renew(
        some.map(({ real }) => real),
        each.duration,
      );
      expect(renewed).toEqual(expected.map(({ real }) => real));
      return;
    }
    case "pass":
      vi.setSystemTime(Date.now() + each.ms);
      return;
    case "replay":
      expect(await store.replay(each.eventId)).toBe(model.replay(each.eventId));
      return;
    case "replayParked": {
      const before = each.before === undefined ? undefined : new Date(START + each.before);
      const replayed = await store.replayParked({ reason: each.reason, before });
      expect(replayed).toBe(model.replayParked(each.reason, before));
      return;
    }
    case "prune": {
      const { does: _, ...options } = each;
      expect(await store.prune(options)).toBe(
        model.prune(options.state, options.reason, options.age, options.limit),
      );
      return;
    }
    case "pruneRecords":
      expect(await store.pruneRecords({ age: each.age, limit: 100 })).toBe(model.pruneRecords(each.age));
      return;
  }
}

async function expectSame(store: EventStore<unknown>, model: ModelStore): Promise<void> {
  const listed = model.list();
  expect(await store.list({ limit: 100 })).toEqual(listed);
  const [first, ...rest] = listed;
  if (first) expect(await store.list({ limit: 2, after: first.eventId })).toEqual(rest.slice(0, 2));
  const counts = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
  for (const { state } of listed) counts[state] += 1;
  expect(await store.counts()).toEqual(counts);
  for (const state of Object.keys(counts) as EventState[]) {
    const rows = listed.filter((row) => row.state === state);
    expect(await store.list({ state, limit: 100 })).toEqual(rows);
  }
  expect(await store.nextDue()).toBe(model.nextDue());
  expect(await store.oldestWaiting()).toBe(model.oldestWaiting());
  const statuses = [];
  for await (const status of store.statuses()) statuses.push(status);
  expect(statuses).toEqual(model.allStatuses());
}

function newEvent(id: string, ref: string | null): NewEvent {
  return { eventId: id, ref, source: "webhook", topic: null, timestamp: "", notification: `"${id}"` };
}
