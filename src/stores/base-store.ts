import { InvalidArgumentError, type Issue, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import type { EventState } from "./event-states.ts";
import { type Change, eventStates } from "./event-states.ts";
import type {
  AddOptions,
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  EventStore,
  ListOptions,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "./event-store.ts";

/** The maximum wait, ms: 366 days. A wait of 1e300 ms would overflow the numbers and dates of a database. */
export const MAX_WAIT = 366 * 24 * 60 * 60_000;

/** Rounds a wait to whole ms, from 0 to {@link MAX_WAIT}. NaN becomes 0. */
export function clampWait(ms: number): number {
  return Math.round(Math.min(Math.max(Number.isNaN(ms) ? 0 : ms, 0), MAX_WAIT));
}

/** The maximum number of attempts in an event's history. */
export const HISTORY_LENGTH = 10;

/** The maximum number of events that one step of `replay` or `discard` changes. Longer steps delay notifications. */
const CHANGE_BATCH = 500;
const RECORDS_PAGE = 500;

const CLAIM = [
  "limit",
  "leaseDuration",
  "worker",
  "eventId",
  "order",
] as const satisfies readonly (keyof ClaimOptions)[];

/** The answer of {@link EventStore.add}. */
export type AddAnswer = Awaited<ReturnType<EventStore["add"]>>;

/** Selects a part of the events. The events are sorted from newest to oldest. */
export interface Slice {
  /** Only events with an arrival number below `before`. If `undefined`, the slice starts at the newest event. */
  readonly before: number | undefined;
  /** The maximum number of events to return or change. */
  readonly limit: number;
}

/** The result of a method that reads or changes one {@link Slice}. */
export interface Sliced<T> {
  readonly found: T;
  /** The value of `before` for the next slice. It is `undefined` after the last slice. */
  readonly next: number | undefined;
}

/**
 * The common base of all stores. It checks that the store is open, checks filters and dates, and limits waits. It
 * implements paging, batches and subscribers. A store implements the protected methods, which get only checked values.
 *
 * Each event has an **arrival number**, which is higher than the numbers of all earlier events.
 */
export abstract class BaseStore<Tx = never> implements EventStore<Tx> {
  protected readonly subscribers = new Subscribers();
  #closing: Promise<void> | undefined;

  protected abstract doAdd(event: NewEvent, dueIn: number | undefined): Promise<AddAnswer>;
  protected abstract doClaim(options: ClaimOptions): Promise<ClaimedEvent[]>;
  protected abstract doRenew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]>;
  protected abstract doSettle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean>;
  protected abstract doNextDue(): Promise<number | undefined>;
  protected abstract doGet(eventId: string): Promise<StoredEvent | undefined>;
  /** Returns events that match `filter`. A result with fewer than `limit` events may still have a `next`. */
  protected abstract doList(filter: EventFilter, slice: Slice): Promise<Sliced<StoredEvent[]>>;
  /** Returns the arrival number of an event, or `undefined` if the store does not have the event. */
  protected abstract arrivalOf(eventId: string): Promise<number | undefined>;
  /** Changes events that match `filter`, but each event at most once. `found` is the number of changed events. */
  protected abstract doChange(change: Change, filter: EventFilter, slice: Slice): Promise<Sliced<number>>;
  protected abstract doCounts(): Promise<Record<EventState, number>>;
  protected abstract doOldestWaiting(): Promise<number | undefined>;
  protected abstract doNewestReceived(): Promise<Date | undefined>;
  /**
   * @returns the number of deleted events. If an event of the record is being processed, deletes nothing and returns
   * `undefined`
   */
  protected abstract doErase(ref: string): Promise<number | undefined>;
  protected abstract doRecordOf(ref: string): Promise<RecordSnapshot | undefined>;
  /** Returns records whose `ref` follows `after`. A result with fewer than `limit` records is the last page. */
  protected abstract doRecords(after: string | undefined, limit: number): Promise<RecordSnapshot[]>;
  protected abstract doLearn(ref: string, snapshot: Snapshot): Promise<boolean>;
  protected abstract doGetMeta(
    key: string,
  ): Promise<{ readonly value: string; readonly age: number } | undefined>;
  protected abstract doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean>;
  protected abstract doPrune(options: PruneOptions): Promise<number>;
  protected abstract doPruneRecords(options: PruneRecordsOptions): Promise<number>;
  protected abstract doClose(): Promise<void>;

  async add(event: NewEvent, options?: AddOptions): Promise<AddAnswer> {
    this.assertOpen();
    checkNoUnknown(options, ["dueIn"]);
    return this.doAdd(event, options?.dueIn === undefined ? undefined : clampWait(options.dueIn));
  }

  async claim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    this.assertOpen();
    checkNoUnknown(options, CLAIM);
    return options.limit <= 0 ? [] : this.doClaim(options);
  }

  async renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.assertOpen();
    return claims.length === 0 ? [] : this.doRenew(claims, leaseDuration);
  }

  async settle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean> {
    this.assertOpen();
    return this.doSettle(
      claim,
      outcome.state === "retrying" ? { ...outcome, in: clampWait(outcome.in) } : outcome,
    );
  }

  async nextDue(): Promise<number | undefined> {
    this.assertOpen();
    return this.doNextDue();
  }

  async list({ limit: asked, after, ...given }: ListOptions): Promise<StoredEvent[]> {
    this.assertOpen();
    const filter = checkedFilter(given);
    const limit = Math.ceil(asked);
    const events: StoredEvent[] = [];
    let before = after === undefined ? undefined : await this.arrivalOf(after);
    if (after !== undefined && before === undefined) return [];
    while (events.length < limit) {
      const { found, next } = await this.doList(filter, { before, limit: limit - events.length });
      events.push(...found);
      if (next === undefined) break;
      before = next;
    }
    return events;
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    this.assertOpen();
    return this.doGet(eventId);
  }

  async counts(): Promise<Record<EventState, number>> {
    this.assertOpen();
    return this.doCounts();
  }

  async oldestWaiting(): Promise<number | undefined> {
    this.assertOpen();
    return this.doOldestWaiting();
  }

  async newestReceived(): Promise<Date | undefined> {
    this.assertOpen();
    return this.doNewestReceived();
  }

  replay(filter: EventFilter): Promise<number> {
    return this.#change("replay", filter);
  }

  discard(filter: EventFilter): Promise<number> {
    return this.#change("discard", filter);
  }

  async erase(ref: string): Promise<number> {
    this.assertOpen();
    checkRef(ref);
    const erased = await this.doErase(ref);
    if (erased !== undefined) return erased;
    throw new StayhookError(
      `An event of ${ref} is being processed, so nothing of ${ref} was erased. Try again when the attempt has ended.`,
    );
  }

  async recordOf(ref: string): Promise<RecordSnapshot | undefined> {
    this.assertOpen();
    return this.doRecordOf(ref);
  }

  async *records(options: { readonly after?: string | undefined } = {}): AsyncGenerator<RecordSnapshot> {
    checkNoUnknown(options, ["after"]);
    let last = options.after;
    for (;;) {
      this.assertOpen();
      const page = await this.doRecords(last, RECORDS_PAGE);
      yield* page;
      if (page.length < RECORDS_PAGE) return;
      last = page.at(-1)!.ref;
    }
  }

  async learn(ref: string, snapshot: Snapshot): Promise<boolean> {
    this.assertOpen();
    return this.doLearn(ref, snapshot);
  }

  async getMeta(key: string): Promise<{ readonly value: string; readonly age: number } | undefined> {
    this.assertOpen();
    return this.doGetMeta(key);
  }

  async setMeta(
    key: string,
    value: string | undefined,
    options: { readonly expected: string | undefined },
  ): Promise<boolean> {
    this.assertOpen();
    checkNoUnknown(options, ["expected"]);
    return this.doSetMeta(key, value, options.expected);
  }

  async prune(options: PruneOptions): Promise<number> {
    this.assertOpen();
    checkNoUnknown(options, ["state", "reason", "age", "limit"]);
    if (options.state !== "done" && options.state !== "parked")
      throw new InvalidArgumentError({ path: ["state"], message: 'must be "done" or "parked"' });
    return options.limit <= 0 ? 0 : this.doPrune(options);
  }

  async pruneRecords(options: PruneRecordsOptions): Promise<number> {
    this.assertOpen();
    checkNoUnknown(options, ["age", "limit"]);
    return options.limit <= 0 ? 0 : this.doPruneRecords(options);
  }

  subscribe(wake: () => void): () => void {
    this.assertOpen();
    const unsubscribe = this.subscribers.add(wake);
    return () => void unsubscribe();
  }

  close(): Promise<void> {
    this.#closing ??= this.doClose().finally(() => this.subscribers.clear());
    return this.#closing;
  }

  protected get closed(): boolean {
    return this.#closing !== undefined;
  }

  protected assertOpen(): void {
    if (this.closed) throw new StayhookError("The store is closed.");
  }

  async #change(change: Change, given: EventFilter): Promise<number> {
    this.assertOpen();
    const filter = checkedFilter(given);
    if (Object.values(filter).every((value) => value === undefined)) {
      throw new InvalidArgumentError({
        path: [],
        message: `${change} requires a filter with at least one field, such as { state: "parked" }`,
      });
    }
    let changed = 0;
    let before: number | undefined;
    do {
      this.assertOpen();
      const { found, next } = await this.doChange(change, filter, { before, limit: CHANGE_BATCH });
      changed += found;
      before = next;
    } while (before !== undefined);
    return changed;
  }
}

const FILTER = [
  "eventId",
  "ref",
  "state",
  "type",
  "reason",
  "source",
  "receivedAfter",
  "receivedBefore",
] as const satisfies readonly (keyof EventFilter)[];
/** The first and the last date that every database can store. No event was received outside this range. */
const [FIRST_DATE, LAST_DATE] = [0, Date.UTC(9999, 11, 31)];

/**
 * Moves the dates of a filter into the range that every database can store. Throws on a misspelled field. If the
 * store ignored this field, the filter could match every event, and `discard` would discard all events.
 */
function checkedFilter(filter: EventFilter): EventFilter {
  checkNoUnknown(filter ?? null, FILTER);
  const issues: Issue[] = [];
  const { state, receivedAfter, receivedBefore } = filter;
  if (state !== undefined && !eventStates.includes(state))
    issues.push({ path: ["state"], message: `must be one of ${eventStates.join(", ")}` });
  for (const [name, date] of Object.entries({ receivedAfter, receivedBefore })) {
    if (date !== undefined && !(date instanceof Date && Number.isFinite(date.getTime())))
      issues.push({ path: [name], message: "must be a valid date" });
  }
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return {
    ...filter,
    ...(receivedAfter && { receivedAfter: withinDates(receivedAfter) }),
    ...(receivedBefore && { receivedBefore: withinDates(receivedBefore) }),
  };
}

function withinDates(date: Date): Date {
  return new Date(Math.min(Math.max(date.getTime(), FIRST_DATE), LAST_DATE));
}

function checkRef(ref: unknown): void {
  if (typeof ref !== "string" || ref === "")
    throw new InvalidArgumentError({ path: ["ref"], message: "must be a text such as booking:HX3K9" });
}

export class Subscribers {
  // The set contains objects, not functions, because the same function may subscribe twice.
  readonly #subscriptions = new Set<{ readonly wake: () => void }>();

  get isEmpty(): boolean {
    return this.#subscriptions.size === 0;
  }

  /** @returns a function that ends the subscription. From the second call on, that function returns `false` */
  add(wake: () => void): () => boolean {
    const subscription = { wake };
    this.#subscriptions.add(subscription);
    return () => this.#subscriptions.delete(subscription);
  }

  wake(): void {
    for (const { wake } of [...this.#subscriptions]) {
      try {
        wake();
      } catch {
        // Ignore an error of `wake`. The store has already written the change, so the store's method must not reject.
      }
    }
  }

  clear(): void {
    this.#subscriptions.clear();
  }
}

export function isSameSnapshot(a: Snapshot, b: Snapshot): boolean {
  const names = Object.keys(a.fields);
  return (
    a.status === b.status &&
    names.length === Object.keys(b.fields).length &&
    names.every((name) => Object.hasOwn(b.fields, name) && a.fields[name] === b.fields[name])
  );
}
