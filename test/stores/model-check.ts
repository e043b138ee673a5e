import fc from "fast-check";
import { expect, vi } from "vitest";
import type { FailureReason } from "../../src/stores/event-states.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  EventStore,
  ListOptions,
  NewEvent,
  Outcome,
  StoredEvent,
} from "../../src/stores/event-store.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";

const REFS = [null, "booking:A", "booking:B", "listing:1"];
const KEYS = ["lock", "place"];
const START = 1_000_000;

/** A store to compare with the memory store. */
export interface Checked {
  /** Makes an empty store. Its clock must be `Date`, which the check sets. */
  create(): EventStore<unknown> | Promise<EventStore<unknown>>;
  readonly numRuns: number;
  /** Maximum number of steps in a run. Default 80. */
  readonly maxSteps?: number;
}

const duration = fc.constantFrom(1, 5, 20, 50);
const wait = fc.constantFrom(0, 5, 20, 50);
const age = fc.constantFrom(0, 10, 50);
const eventId = fc.integer({ min: 0, max: 11 }).map((number) => `event ${number}`);
const ref = fc.constantFrom("booking:A", "booking:B", "listing:1");
const reason = fc.constantFrom<FailureReason>("callback", "not-found");
const type = fc.constantFrom("booking.Request", "booking.Confirmed");
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 });
const rarely = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const entry = fc.record(
  { duration: fc.nat(50), reason, error: fc.constantFrom("one", "other") },
  { requiredKeys: ["duration"] },
);
const snapshot = fc.record({
  status: fc.constantFrom("Request", "Confirmed"),
  fields: fc.record({ nights: fc.constantFrom(1, 2, null) }, { requiredKeys: [] }),
});

const outcome = fc.oneof(
  fc.record({ state: fc.constant("done" as const), type, entry, snapshot: maybe(snapshot) }),
  fc.record({
    state: fc.constant("retrying" as const),
    in: wait,
    counted: fc.boolean(),
    reason,
    entry,
    type: maybe(type),
  }),
  fc.record({ state: fc.constant("parked" as const), reason, entry, type: maybe(type) }),
  fc.constant({ state: "released" as const }),
);

const date = fc.integer({ min: 0, max: 150 }).map((ms) => new Date(START + ms));
const state = fc.constantFrom("pending", "processing", "retrying", "done", "parked");
const source = fc.constantFrom("webhook", "reconcile", "recheck");
const field: fc.Arbitrary<EventFilter> = fc.oneof(
  fc.record({ eventId }),
  fc.record({ ref }),
  fc.record({ state }) as fc.Arbitrary<EventFilter>,
  fc.record({ type }),
  fc.record({ reason: fc.oneof(reason, fc.constant("discarded" as const)) }),
  fc.record({ source }) as fc.Arbitrary<EventFilter>,
  fc.record({ receivedAfter: date }),
  fc.record({ receivedBefore: date }),
);
const filter: fc.Arbitrary<EventFilter> = fc
  .array(field, { minLength: 1, maxLength: 2 })
  .map((fields) => Object.assign({}, ...fields));

/** Counts back from the latest claim. Most values give a recent claim. Some give a claim that is settled or lost. */
const recent = fc.oneof({ weight: 4, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(30) });

const does = <K extends string, T>(name: K, model: { [P in keyof T]: fc.Arbitrary<T[P]> }) =>
  fc.record({ does: fc.constant(name), ...model }) as fc.Arbitrary<{ does: K } & T>;

const claimStep = does("claim", {
  limit: fc.constantFrom(0, 1, 1, 2, 3),
  leaseDuration: duration,
  // Usually absent, because a claim by event id finds little.
  eventId: rarely(eventId),
  order: maybe(fc.constantFrom("oldest" as const, "newest" as const, "retries" as const)),
  worker: maybe(fc.constantFrom("host:1", "host:2")),
});
const claimNow = claimStep.map((step) => ({ ...step, limit: 1 as const, eventId: undefined }));
const pruneStep = does("prune", {
  state: fc.constantFrom("done" as const, "parked" as const),
  reason: maybe(reason),
  age,
  limit: fc.nat(3),
});

const step = fc.oneof(
  { weight: 6, arbitrary: does("add", { eventId, ref: fc.nat(3), source, dueIn: rarely(wait) }) },
  { weight: 8, arbitrary: claimStep },
  { weight: 8, arbitrary: does("settle", { claim: recent, outcome }) },
  { weight: 1, arbitrary: does("renew", { mask: fc.nat(255), duration }) },
  { weight: 4, arbitrary: does("pass", { ms: fc.constantFrom(1, 5, 30) }) },
  { weight: 1, arbitrary: does("setBack", { ms: fc.constantFrom(1, 20, 200), claim: claimNow }) },
  { weight: 2, arbitrary: does("replay", { filter }) },
  { weight: 1, arbitrary: does("discard", { filter }) },
  { weight: 2, arbitrary: does("list", { filter, limit: fc.nat(4), after: maybe(eventId) }) },
  { weight: 1, arbitrary: does("erase", { ref }) },
  { weight: 1, arbitrary: does("learn", { ref, snapshot }) },
  {
    weight: 1,
    arbitrary: does("setMeta", {
      key: fc.constantFrom(...KEYS),
      value: maybe(fc.constantFrom("1", "2")),
      expected: maybe(fc.constantFrom("1", "2")),
    }),
  },
  { weight: 1, arbitrary: pruneStep },
  { weight: 1, arbitrary: does("pruneRecords", { age }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const claimOf = (limit: 1 | 2 | 3, leaseDuration: 1 | 50): Step => ({
  ...{ does: "claim", limit, leaseDuration },
  ...{ eventId: undefined, order: undefined, worker: undefined },
});
const addOf = (name: string, ref: number): Step => ({
  ...{ does: "add", eventId: name, ref, source: "webhook", dueIn: undefined },
});
/**
 * Claims the first of a record's two retries. Then claims one of several retries that became ready at the same time.
 * Random steps rarely reach this state.
 */
const TWO_RETRIES: Step[] = [
  ...[addOf("event 0", 1), addOf("event 1", 0), claimOf(3, 1)],
  ...[addOf("event 2", 1), addOf("event 3", 0), claimOf(1, 1)],
  {
    ...{ does: "settle", claim: 2 },
    outcome: {
      ...{ state: "retrying", in: 50, counted: true, reason: "callback" },
      ...{ entry: { duration: 0 }, type: undefined },
    },
  },
  ...[claimOf(3, 50), { does: "pass", ms: 30 } as const, { does: "pass", ms: 30 } as const],
  ...[
    claimOf(2, 1),
    claimOf(2, 1),
    { does: "discard", filter: { reason: "discarded" } } as const,
    claimOf(1, 1),
  ],
];

/**
 * Runs random commands on a store and on a memory store, and compares their visible state after each command. A failure
 * prints the seed and the shortest run that fails.
 *
 * `STAYHOOK_MODEL_SEED=<seed>` repeats a run.
 */
export async function checkAgainstModel({ create, numRuns, maxSteps = 80 }: Checked): Promise<void> {
  const seed = process.env.STAYHOOK_MODEL_SEED;
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  try {
    const all = fc.array(step, { maxLength: maxSteps, size: "max" });
    // Only one run in four sets the clock back, because it cannot check the order of claims after that.
    const setsBack = fc.constantFrom(false, false, false, true);
    const run = fc.asyncProperty(all, setsBack, async (given, back) => {
      const steps = given.filter((each) => back || each.does !== "setBack");
      vi.setSystemTime(START);
      const store = await create();
      const model = new MemoryStore(Number.POSITIVE_INFINITY);
      try {
        await new Walk(store, model).run(steps);
      } finally {
        await store.close();
      }
    });
    const examples: [Step[], boolean][] = [[TWO_RETRIES, false]];
    await fc.assert(run, { numRuns, examples, ...(seed && { seed: Number(seed) }) });
  } finally {
    vi.useRealTimers();
  }
}

/** One claim in both stores. Each store has its own lease id for it. */
interface Pair {
  readonly real: ClaimedEvent;
  readonly model: ClaimedEvent;
}

class Walk {
  readonly #store: EventStore<unknown>;
  readonly #model: EventStore<unknown>;
  readonly #claims: Pair[] = [];
  /** Whether two events may have the same end time. Stores differ in which of them they prune first. */
  #hasTies = false;
  /** From then on, stores may claim retries in another order, and may show the planned or the real end of a wait. */
  #wasSetBack = false;
  readonly #waits: { readonly from: number; readonly until: number }[] = [];

  constructor(store: EventStore<unknown>, model: EventStore<unknown>) {
    this.#store = store;
    this.#model = model;
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const each of steps) {
      const before = await this.#dueAt();
      let woken = false;
      const end = this.#store.subscribe?.(() => {
        woken = true;
      });
      await this.#take(each);
      end?.();
      await this.#compare();
      // A store need not notify when time passes, or when a process shortens its own lease.
      if (end === undefined || each.does === "pass" || each.does === "setBack" || each.does === "renew")
        continue;
      if ((await this.#dueAt()) < before) expect({ step: each, woken }).toMatchObject({ woken: true });
    }
  }

  async #dueAt(): Promise<number> {
    return Date.now() + ((await this.#model.nextDue()) ?? Number.POSITIVE_INFINITY);
  }

  /** Calls both stores and compares the answers. */
  async #same<T>(call: (store: EventStore<unknown>) => Promise<T>): Promise<T> {
    const expected = await settled(call(this.#model));
    expect(await settled(call(this.#store))).toEqual(expected);
    return (expected as { value: T }).value;
  }

  async #take(each: Step): Promise<void> {
    switch (each.does) {
      case "add": {
        const event = newEvent(each.eventId, REFS[each.ref]!, each.source as NewEvent["source"]);
        const { dueIn } = each;
        if (dueIn !== undefined) this.#noteWait(dueIn);
        await this.#same((store) => (dueIn === undefined ? store.add(event) : store.add(event, { dueIn })));
        return;
      }
      case "claim": {
        const { does: _, ...options } = each;
        const real = await this.#store.claim(options);
        const model = this.#wasSetBack ? await this.#follow(real, options) : await this.#model.claim(options);
        expect(real.map(withoutLease)).toEqual(model.map(withoutLease));
        this.#claims.push(...real.map((claim, index) => ({ real: claim, model: model[index]! })));
        return;
      }
      case "settle": {
        const pair = this.#claims.at(-1 - each.claim);
        if (pair === undefined) return;
        const ending = toOutcome(each.outcome, pair.model);
        this.#pass(1);
        if (ending.state === "retrying") this.#noteWait(ending.in);
        await this.#same((store) => store.settle(store === this.#store ? pair.real : pair.model, ending));
        return;
      }
      case "renew": {
        const some = this.#claims.filter((_, index) => (each.mask >> (index % 8)) % 2 === 0);
        const model = await this.#model.renew(
          some.map((pair) => pair.model),
          each.duration,
        );
        const real = await this.#store.renew(
          some.map((pair) => pair.real),
          each.duration,
        );
        expect(real).toEqual(some.filter((pair) => model.includes(pair.model)).map((pair) => pair.real));
        return;
      }
      case "pass":
        this.#pass(each.ms);
        return;
      case "setBack":
        // A store may or may not remember that a lease or wait has ended, when the clock is before its end again.
        if ((await this.#hasExpiredLease()) || this.#hasEndedWaitAt(Date.now() - each.ms)) return;
        this.#pass(-each.ms);
        this.#hasTies = true;
        this.#wasSetBack = true;
        // At its next claim, a store ends waits whose start is in the future.
        await this.#take(each.claim);
        return;
      case "replay":
        await this.#same((store) => store.replay(each.filter));
        return;
      case "discard":
        this.#pass(1);
        if ((await this.#same((store) => store.discard(each.filter))) > 1) this.#hasTies = true;
        return;
      case "list": {
        const { limit, after } = each;
        await this.#same((store) => this.#list(store, { ...each.filter, limit, after }));
        return;
      }
      case "erase":
        await this.#same((store) => store.erase(each.ref));
        return;
      case "learn":
        this.#pass(1);
        await this.#same((store) => store.learn(each.ref, each.snapshot));
        return;
      case "setMeta":
        await this.#same((store) => store.setMeta(each.key, each.value, { expected: each.expected }));
        return;
      case "prune": {
        const { does: _, ...options } = each;
        await this.#same((store) => store.prune(this.#hasTies ? { ...options, limit: 100 } : options));
        return;
      }
      case "pruneRecords":
        // With a lower limit, stores may prune different records of the same age.
        await this.#same((store) => store.pruneRecords({ age: each.age, limit: 100 }));
        return;
    }
  }

  /** Claims the same events in the memory store. If the store reached no limit, the memory store may have no other. */
  async #follow(real: readonly ClaimedEvent[], options: ClaimOptions): Promise<ClaimedEvent[]> {
    const claims: ClaimedEvent[] = [];
    for (const { eventId } of real) {
      claims.push(...(await this.#model.claim({ ...options, limit: 1, eventId })));
    }
    if (real.length < options.limit) claims.push(...(await this.#model.claim(options)));
    return claims;
  }

  async #hasExpiredLease(): Promise<boolean> {
    const leased = await this.#model.list({ state: "processing", limit: 100 });
    return leased.some(({ dueAt }) => dueAt!.getTime() <= Date.now());
  }

  #noteWait(ms: number): void {
    this.#waits.push({ from: Date.now(), until: Date.now() + ms });
  }

  /** Tells whether a wait that has ended contains this earlier time. */
  #hasEndedWaitAt(time: number): boolean {
    return this.#waits.some(({ from, until }) => from <= time && time < until && until <= Date.now());
  }

  async #list(store: EventStore<unknown>, options: ListOptions): Promise<StoredEvent[]> {
    const events = await store.list(options);
    if (!this.#wasSetBack) return events;
    return events.map((event) => (event.state === "processing" ? event : { ...event, dueAt: null }));
  }

  async #compare(): Promise<void> {
    const [first] = await this.#same((store) => this.#list(store, { limit: 100 }));
    if (first) expect([await this.#store.get(first.eventId)]).toEqual(await this.#store.list({ limit: 1 }));
    await this.#same((store) => store.counts());
    await this.#same((store) => store.nextDue());
    await this.#same((store) => store.oldestWaiting());
    await this.#same((store) => store.newestReceived());
    await this.#same((store) => collect(store));
    for (const key of KEYS) await this.#same((store) => store.getMeta(key));
  }

  #pass(ms: number): void {
    vi.setSystemTime(Date.now() + ms);
  }
}

function toOutcome(given: typeof outcome extends fc.Arbitrary<infer T> ? T : never, claim: ClaimedEvent) {
  if (given.state !== "done" || given.snapshot === undefined)
    return given satisfies Outcome as Outcome<unknown>;
  const { snapshot: seen, ...rest } = given;
  const changed = JSON.stringify(claim.previous) !== JSON.stringify(seen);
  return { ...rest, record: { snapshot: seen, changed } } satisfies Outcome as Outcome<unknown>;
}

async function settled<T>(promise: Promise<T>): Promise<{ value: T } | { error: string }> {
  try {
    return { value: await promise };
  } catch (error) {
    return { error: String(error) };
  }
}

function withoutLease({ lease: _, ...rest }: ClaimedEvent) {
  return rest;
}

async function collect(store: EventStore<unknown>) {
  const records = [];
  for await (const record of store.records()) records.push(record);
  return records;
}

function newEvent(id: string, recordRef: string | null, from: NewEvent["source"]): NewEvent {
  return { eventId: id, ref: recordRef, source: from, topic: null, timestamp: "", notification: `"${id}"` };
}
