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

/** The longest wait, ms: 366 days. A longer one, such as a backoff of 1e300, would overflow numbers and dates of a database. */
export const MAX_WAIT = 366 * 24 * 60 * 60_000;

/** Rounds a wait to whole ms, and limits it to 0 to {@link MAX_WAIT}. NaN becomes 0. */
export function clampWait(ms: number): number {
  return Math.round(Math.min(Math.max(Number.isNaN(ms) ? 0 : ms, 0), MAX_WAIT));
}

/** How many attempts an event's history keeps. */
export const HISTORY_LENGTH = 10;

/** How many events one step of a replay or a discard changes, so that no step delays new notifications. */
const CHANGE_BATCH = 500;
/** How many records one page of {@link EventStore.records} has. */
const RECORDS_PAGE = 500;

const CLAIM = [
  "limit",
  "leaseDuration",
  "worker",
  "eventId",
  "order",
] as const satisfies readonly (keyof ClaimOptions)[];

/** A part of the events, newest first. */
export interface Slice {
  /** Only events whose arrival number is lower; `undefined` begins with the newest. */
  readonly before: number | undefined;
  /** The most events to give or to change. */
  readonly limit: number;
}

/** The result of a step on a {@link Slice}. */
export interface Sliced<T> {
  readonly found: T;
  /** The arrival number to go on before; `undefined` at the end of the events. */
  readonly next: number | undefined;
}

/**
 * The common part of all stores: it checks that the store is open, checks filters and dates, limits waits, and does
 * paging, batches and subscribers. A store implements the protected methods, which get checked values only.
 *
 * Each event has an **arrival number** that rises with each event that the store adds.
 */
export abstract class BaseStore<Tx = never> implements EventStore<Tx> {
  protected readonly subscribers = new Subscribers();
  #closing: Promise<void> | undefined;

  protected abstract doAdd(
    event: NewEvent,
    dueIn: number | undefined,
  ): Promise<"added" | "duplicate" | "conflict">;
  protected abstract doClaim(options: ClaimOptions): Promise<ClaimedEvent[]>;
  protected abstract doRenew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]>;
  protected abstract doSettle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean>;
  protected abstract doNextDue(): Promise<number | undefined>;
  protected abstract doGet(eventId: string): Promise<StoredEvent | undefined>;
  /** Events that match. May give fewer than `limit` with a `next`: the base asks again. */
  protected abstract doList(filter: EventFilter, slice: Slice): Promise<Sliced<StoredEvent[]>>;
  /** The arrival number of an event; `undefined` where it is not known. */
  protected abstract arrivalOf(eventId: string): Promise<number | undefined>;
  /**
   * Changes events that match. `found` is how many it changed; each at most once.
   *
   * A first call without `before` is to begin behind the newest event that there is.
   */
  protected abstract doChange(change: Change, filter: EventFilter, slice: Slice): Promise<Sliced<number>>;
  protected abstract doCounts(): Promise<Record<EventState, number>>;
  protected abstract doOldestWaiting(): Promise<number | undefined>;
  protected abstract doNewestReceived(): Promise<Date | undefined>;
  /** @returns how many events it deleted; `undefined` where one is being processed, and nothing was deleted */
  protected abstract doErase(ref: string): Promise<number | undefined>;
  protected abstract doRecordOf(ref: string): Promise<RecordSnapshot | undefined>;
  /** A page of records behind `after`; a shorter one is the last. */
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

  async add(event: NewEvent, options?: AddOptions): Promise<"added" | "duplicate" | "conflict"> {
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
      `An event of ${ref} is being processed, so nothing of ${ref} was erased. Try again when the event has ended.`,
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
      throw new InvalidArgumentError({ path: ["state"], message: "must be done or parked" });
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
        message: `${change} needs at least one field of a filter, such as { state: "parked" }`,
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
/** The years that every database has a date for. No event was received outside of them. */
const [FIRST_DATE, LAST_DATE] = [0, Date.UTC(9999, 11, 31)];

/**
 * A filter that every database can work with.
 *
 * A misspelled field must not pass: the filter would match every event, and a discard would end them all.
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

/** The subscribers of a store's `subscribe`. */
export class Subscribers {
  // Wrapped in an object, because the same function may subscribe twice.
  readonly #subscriptions = new Set<{ readonly wake: () => void }>();

  get isEmpty(): boolean {
    return this.#subscriptions.size === 0;
  }

  /**
   * @returns a function that undoes the call. It returns `true` if this call undid it, and `false` if an earlier call
   * did
   */
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
        // An error of a subscriber must not fail the call that has recorded the event.
      }
    }
  }

  clear(): void {
    this.#subscriptions.clear();
  }
}

/** Whether two snapshots have the same status and the same fields with the same values. */
export function isSameSnapshot(a: Snapshot, b: Snapshot): boolean {
  const names = Object.keys(a.fields);
  return (
    a.status === b.status &&
    names.length === Object.keys(b.fields).length &&
    names.every((name) => Object.hasOwn(b.fields, name) && a.fields[name] === b.fields[name])
  );
}
