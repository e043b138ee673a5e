import { randomInt } from "node:crypto";
import { performance } from "node:perf_hooks";
import fc from "fast-check";
import { expect, vi } from "vitest";
import { inAccount } from "../../src/account.ts";
import type { EventFilter } from "../../src/stores/event-filter.ts";
import type { EventOrigin, FailureReason } from "../../src/stores/event-states.ts";
import type { EventStore, FurtherChanges, FurtherEvent, Outcome } from "../../src/stores/event-store.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import type { ClaimOptions, NextDueOptions } from "../../src/stores/store-options.ts";
import type { ClaimedEvent, StoredEvent } from "../../src/stores/stored-event.ts";
import { storedEvent } from "./event.ts";

const REFS = [null, "booking:A", "booking:B", "listing:1", "message:A"];
/**
 * The origin of each event id, so that a run removes and replaces no webhook event. To remove one, or to replace one after
 * the clock was set back, may change `lastReceivedAt`.
 */
const ORIGINS: readonly EventOrigin[] = [
  ...Array<EventOrigin>(6).fill("webhook"),
  ...(["reconcile", "reconcile", "recheck", "recheck", "timer", "timer", "thing", "thing"] as const),
];
const KEYS = ["lock", "place"];
const START = 1_000_000_000;
/**
 * After this time, no more runs begin, and a failure is not made shorter, ms. On a machine with other work, a step takes
 * ten times as long as alone. Without this limit, the test would time out, and print no failure.
 */
const TIME = 60_000;
/** The maximum time of a step, ms. */
const STEP_TIME = 30_000;

/** A store to compare with the memory store. */
export interface Checked {
  /** Makes an empty store. Its clock must be `Date`, which the check sets. */
  create(): EventStore<unknown> | Promise<EventStore<unknown>>;
  readonly numRuns: number;
  /** Maximum number of steps in a run. Default 80. */
  readonly maxSteps?: number;
  /** Whether runs set the clock back. Default `true`. */
  readonly setsBack?: boolean;
}

const duration = fc.constantFrom(1, 5, 20, 50);
const wait = fc.constantFrom(0, 5, 20, 50);
const age = fc.constantFrom(0, 10, 50);
const number = fc.integer({ min: 0, max: ORIGINS.length - 1 });
const eventId = number.map(idOf);
const ref = fc.constantFrom("booking:A", "booking:B", "listing:1", "a17/booking:A", "message:A");
const ledger = fc.constantFrom("one", "two", "nul \0");
const account = fc.constantFrom("a17", "b2");
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
const removal = fc.oneof(
  fc.constant("timers" as const),
  fc.uniqueArray(fc.integer({ min: 6, max: ORIGINS.length - 1 }).map(idOf), { minLength: 1, maxLength: 3 }),
);
const further: fc.Arbitrary<FurtherEvent> = fc
  .record({
    number,
    ref: fc.nat(4),
    moved: fc.boolean(),
    dueIn: maybe(wait),
    replace: maybe(fc.constantFrom("ended" as const, "moved" as const)),
  })
  .map(({ number, ref, moved, dueIn, replace }) => {
    const event = newEvent(number, REFS[ref]!, moved);
    return { event, dueIn, ...(event.source !== "webhook" && { replace }) };
  });
const changes = {
  events: rarely(fc.array(further, { minLength: 1, maxLength: 3 })),
  /** Whether `events` begins with the event of the attempt itself. */
  again: rarely(fc.record({ dueIn: wait, replace: fc.constantFrom("ended" as const, "moved" as const) })),
  remove: rarely(removal),
  ledger: rarely(fc.oneof(ledger, fc.constantFrom(null, ""))),
};

const count = fc.constantFrom("call" as const, "failure" as const, "refusal" as const, "nothing" as const);
const outcome = fc.oneof(
  fc.record({ state: fc.constant("done" as const), type, entry, snapshot: maybe(snapshot), ...changes }),
  fc.record({
    ...{
      state: fc.constant("retrying" as const),
      in: wait,
      count,
      found: fc.boolean(),
      holdsRecord: fc.boolean(),
    },
    ...{ reason, entry, type: maybe(type), ...changes },
  }),
  fc.record({ state: fc.constant("parked" as const), reason, entry, type: maybe(type), ...changes }),
  fc.record({ state: fc.constant("released" as const), ...changes }),
);

const date = fc.integer({ min: 0, max: 150 }).map((ms) => new Date(START + ms));
const state = fc.constantFrom("scheduled", "pending", "processing", "retrying", "done", "parked");
const source = fc.constantFrom("webhook", "reconcile", "recheck", "timer", "thing");
const field: fc.Arbitrary<EventFilter> = fc.oneof(
  fc.record({ eventId }),
  fc.record({ ref }),
  fc.record({ account }),
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

const restored = fc
  .record({
    number,
    ref: fc.nat(4),
    state: fc.constantFrom("scheduled", "pending", "retrying", "done", "parked"),
    attempts: fc.nat(3),
    failures: fc.nat(2),
    refusals: fc.nat(2),
    age: fc.nat(30),
    dueIn: fc.integer({ min: -20, max: 50 }),
    type: maybe(type),
    entries: fc.array(entry, { maxLength: 2 }),
  })
  .map((given) => given as Omit<typeof given, "state"> & Pick<StoredEvent, "state">);

/** Counts back from the latest claim. Most values give a recent claim. Some give a claim that is settled or lost. */
const recent = fc.oneof({ weight: 4, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(30) });

const does = <K extends string, T>(name: K, model: { [P in keyof T]: fc.Arbitrary<T[P]> }) =>
  fc.record({ does: fc.constant(name), ...model }) as fc.Arbitrary<{ does: K } & T>;

/** Beginnings that are in each other, that have no record, and of events without a record. */
const beginnings = fc.uniqueArray(
  fc.constantFrom(
    "a17/",
    "a1/",
    "a17/booking:",
    "a17/booking:A",
    "booking:",
    "booking:B",
    "listing:",
    "event 1",
  ),
  { maxLength: 3 },
);
const restriction = { except: maybe(beginnings), only: rarely(beginnings) };
const claimStep = does("claim", {
  limit: fc.constantFrom(0, 1, 1, 2, 3),
  leaseDuration: duration,
  // Usually absent, because a claim by event id finds little.
  eventId: rarely(eventId),
  ...restriction,
  worker: maybe(fc.constantFrom("host:1", "host:2")),
});
const pruneStep = does("prune", {
  state: fc.constantFrom("done" as const, "parked" as const),
  reason: maybe(reason),
  age,
  limit: fc.nat(3),
});

const step = fc.oneof(
  { weight: 8, arbitrary: does("add", { further }) },
  { weight: 8, arbitrary: claimStep },
  { weight: 8, arbitrary: does("settle", { claim: recent, outcome, twice: rarely(fc.constant(true)) }) },
  { weight: 2, arbitrary: does("nextDue", restriction) },
  { weight: 1, arbitrary: does("renew", { mask: fc.nat(255), duration }) },
  { weight: 4, arbitrary: does("pass", { ms: fc.constantFrom(1, 5, 30) }) },
  { weight: 1, arbitrary: does("setBack", { ms: fc.constantFrom(1001, 1100, 5000) }) },
  { weight: 1, arbitrary: does("remove", { ref, what: removal }) },
  { weight: 2, arbitrary: does("replay", { filter }) },
  { weight: 1, arbitrary: does("discard", { filter }) },
  {
    weight: 2,
    arbitrary: does("list", { filter, limit: maybe(fc.integer({ min: 1, max: 4 })), after: maybe(eventId) }),
  },
  { weight: 1, arbitrary: does("erase", { ref }) },
  { weight: 1, arbitrary: does("eraseAccount", { account }) },
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
  { weight: 1, arbitrary: does("pruneSnapshots", { age }) },
  {
    weight: 1,
    arbitrary: does("restore", {
      events: fc.array(restored, { maxLength: 4 }),
      snapshots: fc.array(
        fc.record({ ref, snapshot, sequence: fc.integer({ min: 1, max: 5 }), age, ledger: rarely(ledger) }),
        { maxLength: 2 },
      ),
      ledgers: fc.array(fc.record({ ref, ledger }), { maxLength: 1 }),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type GivenOutcome = typeof outcome extends fc.Arbitrary<infer T> ? T : never;

/**
 * Runs random steps on a store and on a memory store, and compares their visible state after each step. Compares which
 * events can be claimed, and not the order of records. A failure prints the seed and the shortest run that fails.
 *
 * `STAYHOOK_MODEL_SEED=<seed>` repeats a run.
 */
export async function checkAgainstModel(checked: Checked): Promise<void> {
  const { create, numRuns, maxSteps = 80, setsBack = true } = checked;
  const seed = Number(process.env.STAYHOOK_MODEL_SEED ?? randomInt(2 ** 31));
  const end = performance.now() + TIME;
  let runs = 0;
  // The monotonic clock stands still, so that a slow machine does not look like a `Date` that was set back.
  vi.useFakeTimers({ toFake: ["Date", "performance"], now: START });
  try {
    const all = fc.array(step, { maxLength: maxSteps, size: "max" });
    const run = fc.asyncProperty(all, async (given) => {
      if (performance.now() > end) return;
      runs += 1;
      vi.setSystemTime(START);
      const store = await create();
      try {
        await new Walk(store).run(given.filter((each) => setsBack || each.does !== "setBack"));
      } finally {
        await store.close();
      }
    });
    await fc.assert(run, { numRuns, seed });
    if (runs < numRuns) console.log(`the model check had time for ${runs} of ${numRuns} runs`);
  } finally {
    vi.useRealTimers();
  }
}

/** One claim in both stores. Each store has its own lease id for it. */
interface Pair {
  readonly real: ClaimedEvent;
  readonly model: ClaimedEvent;
  /** Whether `settle` was called with the claim. */
  ended?: boolean;
}

class Walk {
  readonly #store: EventStore<unknown>;
  readonly #model: EventStore<unknown> = new MemoryStore();
  readonly #claims: Pair[] = [];
  /** Whether two events may have the same end time. Stores differ in which of them they prune first. */
  #hasTies = false;

  constructor(store: EventStore<unknown>) {
    this.#store = store;
  }

  async run(steps: readonly Step[]): Promise<void> {
    await this.#compare();
    for (const each of steps) await inTime(each, this.#step(each));
  }

  async #step(each: Step): Promise<void> {
    const before = await this.#dueAt();
    let woken = false;
    const end = this.#store.subscribe?.(() => {
      woken = true;
    });
    await this.#take(each);
    end?.();
    await this.#compare();
    // A store need not notify when time passes, or when a process shortens its own lease.
    if (end === undefined || ["pass", "setBack", "renew"].includes(each.does)) return;
    if ((await this.#dueAt()) < before) expect({ step: each, woken }).toMatchObject({ woken: true });
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
        const { event, ...options } = each.further;
        await this.#same((store) => store.add(event, options));
        return;
      }
      case "claim": {
        const { does: _, ...options } = each;
        await this.#claim(options);
        return;
      }
      case "settle": {
        const pair = this.#claims.at(-1 - each.claim);
        if (pair === undefined) return;
        this.#pass(1);
        const ending = await this.#outcomeOf(each.outcome, pair.model);
        const settle = (store: EventStore<unknown>) =>
          store.settle(store === this.#store ? pair.real : pair.model, ending);
        const isRepeated = pair.ended;
        pair.ended = true;
        // A store may have deleted the row with the record's last lease. It then compares times, which the clock may
        // have set back.
        if (isRepeated && this.#hasTies) await Promise.all([settle(this.#model), settle(this.#store)]);
        else await this.#same(settle);
        if (each.twice && !this.#hasTies) await this.#same(settle);
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
      case "nextDue": {
        const { does: _, ...options } = each;
        await this.#compareNextDue(options);
        return;
      }
      case "pass":
        this.#pass(each.ms);
        return;
      case "setBack":
        // The next `nextDue` of `#compare` lets both stores see that the clock was set back.
        this.#pass(-each.ms);
        this.#hasTies = true;
        return;
      case "remove":
        await this.#same((store) => store.remove(each.ref, each.what));
        return;
      case "replay":
        await this.#same((store) => store.replay(each.filter));
        return;
      case "discard":
        this.#pass(1);
        if ((await this.#same((store) => store.discard(each.filter))) > 1) this.#hasTies = true;
        return;
      case "list":
        await this.#same((store) => store.list({ ...each.filter, limit: each.limit, after: each.after }));
        return;
      case "eraseAccount":
        await this.#same((store) => store.eraseAccount!(each.account));
        return;
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
      case "pruneSnapshots":
        // With a lower limit, stores may prune different snapshots of the same age.
        await this.#same((store) => store.pruneSnapshots({ age: each.age, limit: 100 }));
        return;
      case "restore": {
        this.#hasTies = true;
        const now = Date.now();
        const events = each.events.map((given) => restoredEvent(given, now));
        const snapshots = each.snapshots.map(({ age, ...rest }) => ({
          ...rest,
          seenAt: new Date(now - age),
        }));
        await this.#same((store) => store.restore({ events, snapshots, ledgers: each.ledgers }));
        return;
      }
    }
  }

  /**
   * Claims in the store, and checks that the claims are as many as they can be, and that each is the event of its record
   * that is due longest. Then claims the same events in the model.
   */
  async #claim(options: ClaimOptions): Promise<void> {
    const listed = (await this.#model.list({ limit: 1000 })).filter((event) => takes(options, event));
    const due = firstDueEvents(listed, Date.now());
    let told: { readonly in: number | undefined } | undefined;
    const claim = (limit: number) =>
      this.#store.claim({ ...options, limit, onNextDue: (ms) => (told = { in: ms }) });
    const real = await claim(options.limit);
    // A record whose due time is too early may have taken a place. That claim has set the time right, so another finds the rest.
    const most = options.eventId === undefined ? Math.min(options.limit, due.length) : real.length;
    for (let again = 0; again < 3 && real.length < most; again += 1)
      real.push(...(await claim(most - real.length)));
    if (told !== undefined) expect(told.in).toBe(await this.#store.nextDue(restrictionOf(options)));
    if (options.eventId === undefined) {
      expect(real).toHaveLength(most);
      expect(due).toEqual(expect.arrayContaining(real.map(({ eventId }) => eventId)));
    }
    const wanted = options.eventId === undefined ? real.map(({ eventId }) => eventId) : [options.eventId];
    const model: ClaimedEvent[] = [];
    for (const eventId of wanted)
      model.push(...(await this.#model.claim({ ...options, limit: Math.min(1, options.limit), eventId })));
    expect(real.map(withoutLease)).toEqual(model.map(withoutLease));
    this.#claims.push(...real.map((claim, index) => ({ real: claim, model: model[index]! })));
  }

  async #outcomeOf(given: GivenOutcome, claim: ClaimedEvent): Promise<Outcome<unknown>> {
    const { events, again, remove, ledger, ...rest } = given;
    const changes: FurtherChanges & { events?: FurtherEvent[] } = { remove, ledger };
    if (again && claim.source !== "webhook")
      changes.events = [{ event: { ...claim, timestamp: "again" }, ...again }];
    for (const each of events ?? []) {
      // Stores may keep an event of another record whose lease has ended, or replace it.
      const known = await this.#model.get(each.event.eventId);
      if (known?.state !== "processing" || known.eventId === claim.eventId)
        changes.events = [...(changes.events ?? []), each];
    }
    if (rest.state !== "done") return { ...rest, ...changes };
    const { snapshot: seen, ...done } = rest;
    const changed = JSON.stringify(claim.previous) !== JSON.stringify(seen);
    return { ...done, ...changes, ...(seen && { record: { snapshot: seen, changed } }) };
  }

  async #compare(): Promise<void> {
    await this.#compareNextDue();
    const [first] = await this.#same((store) => store.list({ limit: 1000 }));
    if (first) expect([await this.#store.get(first.eventId)]).toEqual(await this.#store.list({ limit: 1 }));
    await this.#same((store) => store.counts());
    await this.#same((store) => store.oldestWaiting());
    await this.#same((store) => store.lastReceivedAt());
    await this.#same((store) => collect(store));
    for (const key of KEYS) await this.#same((store) => store.getMeta(key));
  }

  /** A store may say too early a time. If the time is now, a claim finds nothing, and corrects it. */
  async #compareNextDue(options: NextDueOptions = {}): Promise<void> {
    const expected = await this.#model.nextDue(options);
    let real = await this.#store.nextDue(options);
    if (real === 0 && expected !== 0) {
      expect(await this.#store.claim({ ...options, limit: 100, leaseDuration: 1 })).toEqual([]);
      real = await this.#store.nextDue(options);
      expect(real).not.toBe(0);
    }
    if (real === undefined || !expected) expect(real).toBe(expected);
    else expect(real).toBeLessThanOrEqual(expected);
  }

  #pass(ms: number): void {
    vi.setSystemTime(Date.now() + ms);
  }
}

function restrictionOf({ except, only }: ClaimOptions): NextDueOptions {
  return { except, only };
}

/** Whether a claim takes the record of an event. */
function takes({ except = [], only }: NextDueOptions, { ref, eventId }: StoredEvent): boolean {
  const begins = (text: string) => (ref ?? eventId).startsWith(text);
  return !except.some(begins) && (only === undefined || only.some(begins));
}

/** Returns the ids of the events that are due longest in their records, of records that hold no lease. */
function firstDueEvents(listed: readonly StoredEvent[], now: number): string[] {
  const records = new Map<string, StoredEvent[]>();
  // From the oldest to the newest, so that of equal times the event that was received first comes first.
  for (const event of [...listed].reverse()) {
    const key = event.ref ?? event.eventId;
    records.set(key, [...(records.get(key) ?? []), event]);
  }
  const isDue = ({ dueAt }: StoredEvent) => dueAt !== null && dueAt.getTime() <= now;
  return [...records.values()]
    .filter((events) => events.every((event) => event.state !== "processing" || isDue(event)))
    .map((events) => events.filter(isDue).sort((a, b) => Number(a.dueAt) - Number(b.dueAt))[0]?.eventId)
    .filter((id) => id !== undefined);
}

function restoredEvent(
  {
    number,
    ref,
    state,
    attempts,
    failures,
    refusals,
    age,
    dueIn,
    type,
    entries,
  }: typeof restored extends fc.Arbitrary<infer T> ? T : never,
  now: number,
): StoredEvent {
  const isOpen = state !== "done" && state !== "parked";
  return storedEvent({
    ...newEvent(number, REFS[ref]!, false),
    state,
    ...{ attempts, failures, refusals },
    receivedAt: new Date(now - age),
    dueAt: isOpen ? new Date(now + dueIn) : null,
    doneAt: state === "done" ? new Date(now - age) : null,
    type: type ?? null,
    reason: state === "parked" || state === "retrying" ? "callback" : null,
    history: entries.map((each) => ({
      ...each,
      at: new Date(now - age),
      outcome: "retrying",
      worker: "w:1",
    })),
  });
}

/** @throws if a call of the step does not end, so that the failure names the step */
async function inTime(step: Step, taken: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `the step ${JSON.stringify(step)} did not end within ${STEP_TIME} ms`;
    timer = setTimeout(() => reject(new Error(message)), STEP_TIME);
  });
  await Promise.race([taken, late]).finally(() => clearTimeout(timer));
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
  const snapshots = [];
  for await (const each of store.snapshots()) snapshots.push(each);
  const ledgers = [];
  for await (const each of store.ledgers()) ledgers.push(each);
  for (const { ref, ledger } of ledgers) expect(await store.ledgerOf(ref)).toBe(ledger);
  return [snapshots, ledgers];
}

/** The id and the ref of an event begin with the same account. */
function accountOf(number: number): string | undefined {
  return number % 4 === 3 ? "a17" : undefined;
}

function idOf(number: number): string {
  return inAccount(accountOf(number), `event ${number}`);
}

function newEvent(number: number, recordRef: string | null, moved: boolean) {
  return {
    ...{
      eventId: idOf(number),
      ref: recordRef && inAccount(accountOf(number), recordRef),
      source: ORIGINS[number]!,
      topic: null,
    },
    ...{ timestamp: moved ? "moved" : "", notification: `"${number}"` },
  };
}
