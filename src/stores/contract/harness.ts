// What the cases of the store contract are written with.

import { inAccount, splitKey } from "../../account.ts";
import type { EventStore, Outcome } from "../event-store.ts";
import type { Snapshot } from "../snapshot.ts";
import type { AddOptions, ClaimOptions } from "../store-options.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "../stored-event.ts";

/** The duration of a lease or wait that does not end while a case runs, ms. */
export const LONG = 60_000;

/** How long a case polls before it fails, in units. A correct store needs few units, except on a busy machine. */
const PATIENCE = 200;

/** The tolerance in ms when a case compares times of two clocks. The store's clock may count in whole ms. */
const CLOCK = 5;

/** The cases of one topic, by name. */
export type Cases = Readonly<Record<string, (bench: Bench) => Promise<void>>>;

type Failure = Extract<Outcome<unknown>, { readonly state: "retrying" }>;

export const failed = (wait: number): Failure => ({
  state: "retrying",
  in: wait,
  reason: "callback",
  entry: { duration: 1, reason: "callback", error: "the callback failed" },
});

export const unreachable = (wait: number): Failure => ({
  state: "retrying",
  in: wait,
  count: "nothing",
  holdsRecord: true,
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

/** Makes a `done` outcome. The outcome has a snapshot if `status` is given. */
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

/**
 * A new store for a case, and helpers for the case. A helper throws an error if its check fails. The helpers are arrow
 * functions, so that cases can destructure them.
 */
export class Bench {
  readonly store: EventStore<unknown>;
  /** The unit of leases and waits, ms. */
  readonly unit: number;
  #events = 0;

  constructor(store: EventStore<unknown>, unit: number) {
    this.store = store;
    this.unit = unit;
  }

  readonly newEvent = (
    ref: string | null,
    fields: Partial<NewEvent> = {},
  ): Pick<StoredEvent, keyof NewEvent> => {
    this.#events += 1;
    const number = String(this.#events).padStart(12, "0");
    return {
      eventId: inAccount(splitKey(ref ?? "").account, `00000000-0000-4000-8000-${number}`),
      ref,
      source: "webhook",
      topic: null,
      timestamp: "2026-03-01T10:00:00.000Z",
      notification: `{"n":${this.#events}}`,
      ...fields,
      traceparent: fields.traceparent ?? null,
    };
  };

  /** Adds an event. Fails if `store.add` does not return `added`. */
  readonly add = async (
    ref: string | null,
    fields?: Partial<NewEvent>,
    options?: AddOptions,
  ): Promise<ReturnType<Bench["newEvent"]>> => {
    const event = this.newEvent(ref, fields);
    equal(`add() of the new event ${event.eventId}`, await this.store.add(event, options), "added");
    return event;
  };

  /**
   * Adds an event, claims an event with `claimOne`, and settles the claim with `outcome`. Returns the added event. If
   * the record has an older event that is due, `claimOne` claims the older event.
   */
  readonly ended = async (ref: string | null, outcome: Outcome<unknown>): ReturnType<Bench["add"]> => {
    const event = await this.add(ref);
    await this.settle(await this.claimOne(), outcome);
    return event;
  };

  /** Like `ended`, but settles the claim as `done`. */
  readonly handle = async (
    ref: string | null,
    status?: string,
    fields?: Snapshot["fields"],
  ): ReturnType<Bench["add"]> => {
    const event = await this.add(ref);
    await this.done(await this.claimOne(), status, fields);
    return event;
  };

  /** Claims up to 100 events with a long lease. `options` override these defaults. */
  readonly claim = (options?: Partial<ClaimOptions>): Promise<ClaimedEvent[]> =>
    this.store.claim({ limit: 100, leaseDuration: LONG, ...options });

  /** Claims events, and fails if the number of claimed events is not 1. */
  readonly claimOne = async (options?: Partial<ClaimOptions>): Promise<ClaimedEvent> => {
    const claims = await this.claim(options);
    check(claims.length === 1, `claim(): expected 1 event, got ${claims.length}`);
    return claims[0]!;
  };

  /** Claims events, and fails if they are other events than these. */
  readonly claims = async (
    what: string,
    ...expected: readonly { readonly eventId: string }[]
  ): Promise<ClaimedEvent[]> => {
    const claims = await this.claim();
    equal(`ids of the events that claim() returned ${what}`, idsOf(claims), idsOf(expected));
    return claims;
  };

  /** Polls until it can claim an event. Fails after a timeout, or if `performance.now()` is below `notBefore`. */
  readonly claimLater = async (notBefore: number, options?: Partial<ClaimOptions>): Promise<ClaimedEvent> => {
    const claim = await this.eventually("claim() to return an event", async () => {
      const [first] = await this.claim({ limit: 1, ...options });
      return first;
    });
    const early = Math.round(notBefore - performance.now());
    check(early <= CLOCK, `claim() returned the event ${claim.eventId} ${early} ms too early`);
    return claim;
  };

  /** Settles a claim. Fails if the lease is lost. */
  readonly settle = async (claim: ClaimedEvent, outcome: Outcome<unknown>): Promise<void> => {
    const held = await this.store.settle(claim, outcome);
    equal(`settle() of ${claim.eventId} as ${outcome.state}, with its current lease`, held, true);
  };

  /** Settles a claim as `done`. Writes a snapshot if `status` is given. */
  readonly done = (claim: ClaimedEvent, status?: string, fields?: Snapshot["fields"]): Promise<void> =>
    this.settle(claim, handled(claim, status, fields));

  /** Reads an event. Fails if the store does not have it. */
  readonly get = async ({ eventId }: { readonly eventId: string }): Promise<StoredEvent> => {
    const stored = await this.store.get(eventId);
    check(stored !== undefined, `get(): expected the event ${eventId}, got undefined`);
    return stored;
  };

  /** Fails if a field of `expected` differs in the stored event. Ignores all other fields. */
  readonly shows = async (
    event: { readonly eventId: string },
    expected: Partial<StoredEvent>,
  ): Promise<void> => {
    const stored = await this.get(event);
    const shown = Object.keys(expected).map((name) => [name, stored[name as keyof StoredEvent]]);
    equal(`get() of the event ${event.eventId}`, Object.fromEntries(shown), expected);
  };

  /** Polls until `probe` resolves to a value other than `undefined` and `false`. */
  readonly eventually = async <T>(what: string, probe: () => Promise<T | undefined | false>): Promise<T> => {
    const end = performance.now() + PATIENCE * this.unit;
    for (;;) {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
      check(performance.now() < end, `timeout: waited ${PATIENCE * this.unit} ms for ${what}`);
      await this.sleep(0.1);
    }
  };

  readonly sleep = (units: number): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, units * this.unit));

  /** Waits until the store's clock has advanced, even if the clock counts in whole ms. */
  readonly tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, CLOCK));
}

/** Returns the sorted ids of events. */
export function idsOf(events: readonly { readonly eventId: string }[]): string[] {
  return events.map(({ eventId }) => eventId).sort();
}

/** The checks below replace `node:assert`, because runtimes such as Cloudflare Workers may lack that module. */

export async function collect<T>(yielded: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of yielded) all.push(each);
  return all;
}

export function check(ok: boolean, message: string): asserts ok {
  if (!ok) throw new Error(message);
}

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
