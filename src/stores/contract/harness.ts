import type {
  ClaimedEvent,
  ClaimOptions,
  EventStore,
  NewEvent,
  Outcome,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";

/** A lease or wait, in ms, that does not end while a case runs. */
export const LONG = 60_000;

/** How many units a case waits for an event. A right store needs a few of them, but a busy machine may need more. */
export const PATIENCE = 200;

/** ms by which a clock may be off. The store's clock may count in whole ms. */
const CLOCK = 5;

/** A fresh store for a case, and steps that fail with a message. */
export interface Bench {
  readonly store: EventStore<unknown>;
  /** ms. Cases wait for a few of these. */
  readonly unit: number;
  newEvent(
    ref: string | null,
    fields?: Partial<NewEvent>,
  ): NewEvent & { readonly traceparent: string | null };
  /** Adds an event that must be new. */
  add(ref: string | null, fields?: Partial<NewEvent>): Promise<ReturnType<Bench["newEvent"]>>;
  /** Adds an event, and ends its first attempt. No other event can be claimed. */
  ended(ref: string | null, outcome: Outcome<unknown>): ReturnType<Bench["add"]>;
  /** Like `ended`, with `done` as the end. */
  handle(ref: string | null, status?: string, fields?: Snapshot["fields"]): ReturnType<Bench["add"]>;
  /** Default: a long lease, and up to 100 events. */
  claim(options?: Partial<ClaimOptions>): Promise<ClaimedEvent[]>;
  /** There must be exactly one. */
  claimOne(options?: Partial<ClaimOptions>): Promise<ClaimedEvent>;
  /** Polls until an event can be claimed. Fails where none can, or where one can before `notBefore` (of `performance.now()`). */
  claimLater(notBefore: number, options?: Partial<ClaimOptions>): Promise<ClaimedEvent>;
  /** The lease must still be held. */
  settle(claim: ClaimedEvent, outcome: Outcome<unknown>): Promise<void>;
  /** Writes a snapshot where a status is given. */
  done(claim: ClaimedEvent, status?: string, fields?: Snapshot["fields"]): Promise<void>;
  /** The event must be known. */
  get(event: { readonly eventId: string }): Promise<StoredEvent>;
  /** The event must have these values. Other fields are not compared. */
  shows(event: { readonly eventId: string }, expected: Partial<StoredEvent>): Promise<void>;
  /** Polls until `probe` gives neither `undefined` nor `false`. */
  eventually<T>(what: string, probe: () => Promise<T | undefined | false>): Promise<T>;
  sleep(units: number): Promise<void>;
  /** Waits so long that the next step has a later time in every store. */
  tick(): Promise<void>;
}

/** One topic's cases by name. */
export type Cases = Readonly<Record<string, (bench: Bench) => Promise<void>>>;

type Failure = Extract<Outcome<unknown>, { readonly state: "retrying" }>;

/** Outcomes that many cases need. */
export const failed = (wait: number): Failure => ({
  state: "retrying",
  in: wait,
  counted: true,
  reason: "callback",
  entry: { duration: 1, reason: "callback", error: "the callback failed" },
});

export const unreachable = (wait: number): Failure => ({
  state: "retrying",
  in: wait,
  counted: false,
  reason: "unavailable",
  entry: { duration: 1, reason: "unavailable", error: "the platform is out of reach" },
});

export const parked = (
  reason: "callback" | "not-found" = "callback",
): Extract<Outcome<unknown>, { readonly state: "parked" }> => ({
  state: "parked",
  reason,
  entry: { duration: 1, reason, error: "given up" },
});

/** An end whose record has a snapshot where a status is given. */
export function handled(
  claim: ClaimedEvent,
  status?: string,
  fields: Snapshot["fields"] = {},
): Extract<Outcome<unknown>, { readonly state: "done" }> {
  const { previous } = claim;
  const changed =
    previous?.status !== status ||
    Object.entries(fields).some(([name, value]) => previous?.fields[name] !== value);
  return {
    state: "done",
    type: "booking.Confirmed",
    entry: { duration: 1 },
    ...(status !== undefined && { record: { snapshot: { status, fields }, changed } }),
  };
}

export function createBench(store: EventStore<unknown>, unit: number): Bench {
  let events = 0;
  const bench: Bench = {
    store,
    unit,

    newEvent(ref, fields = {}) {
      events += 1;
      const number = String(events).padStart(12, "0");
      return {
        eventId: `00000000-0000-4000-8000-${number}`,
        ref,
        source: "webhook",
        topic: null,
        timestamp: "2026-03-01T10:00:00.000Z",
        notification: `{"n":${events}}`,
        ...fields,
        traceparent: fields.traceparent ?? null,
      };
    },

    async add(ref, fields) {
      const event = bench.newEvent(ref, fields);
      equal(`add of the new event ${event.eventId}`, await store.add(event), "added");
      return event;
    },

    async ended(ref, outcome) {
      const event = await bench.add(ref);
      await bench.settle(await bench.claimOne(), outcome);
      return event;
    },

    async handle(ref, status, fields) {
      const event = await bench.add(ref);
      await bench.done(await bench.claimOne(), status, fields);
      return event;
    },

    claim: (options) => store.claim({ limit: 100, leaseDuration: LONG, ...options }),

    async claimOne(options) {
      const claims = await bench.claim(options);
      check(claims.length === 1, `claim: expected one event, got ${claims.length}`);
      return claims[0]!;
    },

    async claimLater(notBefore, options) {
      const claim = await bench.eventually("an event that can be claimed", async () => {
        const [first] = await bench.claim({ limit: 1, ...options });
        return first;
      });
      const early = Math.round(notBefore - performance.now());
      check(early <= CLOCK, `claim: got ${claim.eventId} ${early} ms too early`);
      return claim;
    },

    async settle(claim, outcome) {
      const held = await store.settle(claim, outcome);
      equal(`settle of ${claim.eventId} as ${outcome.state}, under its lease`, held, true);
    },

    done: (claim, status, fields) => bench.settle(claim, handled(claim, status, fields)),

    async get({ eventId }) {
      const stored = await store.get(eventId);
      check(stored !== undefined, `get: expected the event ${eventId}, got undefined`);
      return stored;
    },

    async shows(event, expected) {
      const stored = await bench.get(event);
      const shown = Object.keys(expected).map((name) => [name, stored[name as keyof StoredEvent]]);
      equal(`the event ${event.eventId}`, Object.fromEntries(shown), expected);
    },

    async eventually(what, probe) {
      const end = performance.now() + PATIENCE * unit;
      for (;;) {
        const value = await probe();
        if (value !== undefined && value !== false) return value;
        check(performance.now() < end, `waited ${PATIENCE * unit} ms in vain for ${what}`);
        await bench.sleep(0.1);
      }
    },

    sleep: (units) => new Promise((resolve) => setTimeout(resolve, units * unit)),
    tick: () => new Promise((resolve) => setTimeout(resolve, CLOCK)),
  };
  return bench;
}

/** Own checks instead of `node:assert`: the contract runs wherever a store does, Workers too. */

export function check(ok: boolean, message: string): asserts ok {
  if (!ok) throw new Error(message);
}

/** Plain data, deeply. */
export function equal(what: string, actual: unknown, expected: unknown): void {
  check(isSame(actual, expected), `${what}: expected ${show(expected)}, got ${show(actual)}`);
}

export function between(what: string, actual: unknown, min: number, max: number): void {
  const inside = typeof actual === "number" && actual >= min && actual <= max;
  check(inside, `${what}: expected a number from ${min} to ${max}, got ${show(actual)}`);
}

export async function rejects(what: string, run: () => unknown): Promise<void> {
  let result: unknown;
  try {
    result = await run();
  } catch {
    return;
  }
  check(false, `${what}: expected a rejection, got ${show(result)}`);
}

function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (a instanceof Date || b instanceof Date) {
    return a instanceof Date && b instanceof Date && a.getTime() === b.getTime();
  }
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    left.length === right.length &&
    left.every(([key, value]) => Object.hasOwn(b, key) && isSame(value, (b as Record<string, unknown>)[key]))
  );
}

function show(value: unknown): string {
  const text =
    value === undefined || typeof value === "function" || typeof value === "symbol"
      ? String(value)
      : JSON.stringify(value, (_, inner) =>
          inner === undefined || typeof inner === "bigint" ? String(inner) : inner,
        );
  return text.length > 500 ? `${text.slice(0, 500)}…` : text;
}
