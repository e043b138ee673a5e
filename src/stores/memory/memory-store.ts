import { isThenable } from "../../async.ts";
import { clockOffset } from "../../clock.ts";
import {
  type AddAnswer,
  BaseStore,
  type Claimed,
  isSameSnapshot,
  type Settled,
  type Slice,
  type Sliced,
  type Timed,
} from "../base-store.ts";
import type { RowFilter } from "../checked-filter.ts";
import type { Change, EventState } from "../event-states.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  PruneOptions,
  PruneSnapshotsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
  Write,
} from "../event-store.ts";
import {
  type Addition,
  copyOfSnapshot,
  historyOfReplaced,
  lostHistory,
  replaces,
  type Settlement,
  stateOfNew,
} from "../outcomes.ts";
import { DueHeap } from "./due-heap.ts";
import {
  beginAnew,
  dropText,
  type EventRow,
  isMatch,
  isOpen,
  isWaiting,
  newEventRow,
  newRecordRow,
  type RecordRow,
  restoredRow,
  toClaim,
  toRecordSnapshot,
  toStoredEvent,
} from "./memory-rows.ts";

/** The maximum number of done events that the store keeps to recognize repeated deliveries. */
const MOST_DONE = 100_000;

/** The end of a lease while the transaction of its writes commits. As the lock of a database, it lets no claim in. */
const LOCKED = Number.POSITIVE_INFINITY;

function isLocked({ lease }: RecordRow): boolean {
  return lease?.end === LOCKED;
}

/** Runs `run` in a transaction of the user's database. */
export type RunTransaction<Tx> = (run: (tx: Tx) => void | Promise<void>) => unknown;

/** The key of a property that exists only in the type. */
declare const ran: unique symbol;

/** The result of the functions passed to `event.atomically`. It carries the type of their transaction, and no value. */
export interface Ran<Tx> {
  /** The transaction. The property exists only in the type. */
  readonly [ran]: Tx;
}

/**
 * Runs `run` in a transaction of the user's database, and returns its result. So TypeScript infers `Tx` from the method
 * of an ORM that calls `run` with its transaction.
 */
export type RunInTransaction<Tx> = (run: <T>(tx: T) => Promise<Ran<T>>) => PromiseLike<Ran<Tx>>;

/**
 * The plain model of a store. Tests compare the behavior of all other stores with this store.
 *
 * No step awaits between reading and writing, so each step is atomic.
 */
export class MemoryStore<Tx = never> extends BaseStore<Tx> {
  declare readonly transactional?: true;
  readonly #transaction: RunTransaction<Tx> | undefined;
  /** All events by id, in order of arrival. */
  readonly #events = new Map<string, EventRow>();
  /** The records that have a snapshot or an event, by key. */
  readonly #records = new Map<string, RecordRow>();
  /** The records with a lease or a due time. */
  readonly #due = new DueHeap<RecordRow>();
  /** The done events, in the order in which they became done. Timers are in a set of their own. */
  readonly #done = new Set<EventRow>();
  /** The timers that have fired. They do not count toward {@link MOST_DONE}, because their record's snapshot keeps them. */
  readonly #doneTimers = new Set<EventRow>();
  readonly #meta = new Map<string, { readonly value: string; readonly setAt: number }>();
  #lastReceivedAt: number | undefined;
  #arrivals = 0;
  #clockOffset = clockOffset();
  #leases = 0;

  /** @param transaction - runs the writes of `event.atomically` in the user's database */
  constructor(transaction?: RunTransaction<Tx>) {
    super();
    this.#transaction = transaction;
    if (transaction) this.transactional = true;
  }

  protected async doAdd(additions: readonly Addition[]): Promise<AddAnswer[]> {
    const now = this.#now();
    return additions.map((addition) => this.#add(addition, now));
  }

  #add(addition: Addition, now: number): AddAnswer {
    const { event } = addition;
    const known = this.#events.get(event.eventId);
    if (known !== undefined) return this.#replace(known, addition, now);
    const record = this.#recordOf(event.ref, event.eventId);
    this.#insert(newEventRow(addition, record, this.#nextArrival(), now));
    return "added";
  }

  #replace(row: EventRow, addition: Addition, now: number): AddAnswer {
    const { event, replace, dueIn } = addition;
    if (row.event.ref !== event.ref) return "conflict";
    const isReplaced = replaces(addition, row.event, row.state);
    if (row.state === "processing" && row.record.lease!.end > now)
      return isReplaced || replace === "ended" ? "busy" : "duplicate";
    if (!isReplaced) return "duplicate";
    if (row.state === "processing") this.#expire(row.record, now);
    Object.assign(row, beginAnew(stateOfNew(addition), now + dueIn), {
      event,
      receivedAt: now,
      replayed: false,
      history: historyOfReplaced(event, row.history),
    });
    this.#noteReceived(row);
    this.#notDone(row);
    this.#refresh(row.record);
    return "added";
  }

  #insert(row: EventRow): void {
    this.#events.set(row.event.eventId, row);
    row.record.events.add(row);
    this.#noteReceived(row);
    if (row.state === "done") this.#becameDone(row);
    this.#becomeDue(row);
  }

  #noteReceived({ event, receivedAt }: EventRow): void {
    if (event.source === "webhook") this.#lastReceivedAt = Math.max(this.#lastReceivedAt ?? 0, receivedAt);
  }

  protected async doClaim(options: ClaimOptions): Promise<Timed<Claimed[]>> {
    const now = this.#now();
    const result: Claimed[] = [];
    for (const record of this.#candidates(options, now)) {
      if (result.length >= options.limit) break;
      const row = options.eventId === undefined ? firstOf(record) : this.#events.get(options.eventId);
      // An ended lease stays valid until an event of the record is claimed.
      if (row !== undefined && isOpen(row) && row.dueAt <= now) {
        this.#expire(record, now);
        result.push(this.#lease(row, now, options));
      } else {
        // A replaced event may be due later than its record.
        this.#refresh(record);
      }
    }
    return { now, result };
  }

  /** Yields the records that can be claimed. The caller leases each record before it asks for the next one. */
  *#candidates({ eventId, newestFirst }: ClaimOptions, now: number): Iterable<RecordRow> {
    if (eventId !== undefined) {
      const record = this.#events.get(eventId)?.record;
      if (record !== undefined && record.index !== -1 && record.time <= now) yield record;
    } else if (newestFirst) {
      yield* this.#due.dueAt(now);
    } else {
      while (this.#due.first !== undefined && this.#due.first.time <= now) yield this.#due.first;
    }
  }

  #lease(row: EventRow, now: number, { leaseDuration, worker }: ClaimOptions): Claimed {
    const { record } = row;
    this.#leases += 1;
    const token = String(this.#leases);
    const end = now + leaseDuration;
    record.lease = { row, end, duration: leaseDuration };
    row.state = "processing";
    row.dueAt = end;
    row.attempts += 1;
    row.claimedAt = now;
    row.worker = worker;
    row.lease = token;
    this.#refresh(record);
    return { claim: toClaim(row, token), row: { history: row.history, worker } };
  }

  /** If the record's lease has ended, gives its event a `lost` entry, and lets the event wait again. */
  #expire(record: RecordRow, now: number): void {
    const { lease } = record;
    if (lease === undefined || lease.end > now) return;
    const { row, end } = lease;
    row.state = "retrying";
    row.history = lostHistory(row, row.claimedAt, end);
    row.lease = undefined;
    record.lease = undefined;
    this.#refresh(record);
  }

  protected async doRenew(claims: readonly ClaimedEvent[], duration: number): Promise<string[]> {
    const end = this.#now() + duration;
    const held = claims.filter((claim) => {
      const row = this.#held(claim);
      if (row === undefined) return false;
      row.dueAt = end;
      row.record.lease = { row, end: isLocked(row.record) ? LOCKED : end, duration };
      this.#refresh(row.record);
      return true;
    });
    return held.map(({ lease }) => lease);
  }

  protected async doSettle(settlements: readonly Settlement<Tx>[]): Promise<Settled[]> {
    for (const { claim, writes } of settlements) {
      if (writes.length === 0 || this.#transaction === undefined) continue;
      if (this.#held(claim) === undefined) return [this.#alreadySettled(claim)];
      if (!(await this.#runWrites(claim, writes))) return [{ held: false, more: false }];
    }
    const now = this.#now();
    return settlements.map((settlement) => this.#settle(settlement, now));
  }

  /** @returns `false` if the lease was lost meanwhile. The transaction is then rolled back */
  async #runWrites(claim: ClaimedEvent, writes: readonly Write<Tx>[]): Promise<boolean> {
    const lost = new Error(`The lease of event ${claim.eventId} was lost while its writes ran.`);
    const check = (): void => {
      if (this.#held(claim) === undefined) throw lost;
      // A claim during the COMMIT would run the writes twice.
      this.#endLeaseAt(claim, LOCKED);
    };
    try {
      await this.#transaction!((tx) => runInOrder([...writes.map((write) => () => write(tx)), check]));
      return true;
    } catch (error) {
      if (error === lost) return false;
      this.#endLeaseAt(claim, this.#held(claim)?.dueAt);
      throw error;
    }
  }

  #endLeaseAt(claim: ClaimedEvent, end = 0): void {
    const record = this.#held(claim)?.record;
    if (record === undefined) return;
    record.lease!.end = end;
    this.#refresh(record);
  }

  #settle(settlement: Settlement<Tx>, now: number): Settled {
    const { claim, delay, record: written, remove, additions } = settlement;
    const row = this.#held(claim);
    if (row === undefined) return this.#alreadySettled(claim);
    const { record } = row;
    const { event, dueIn, type, dropsText, ...values } = settlement.change;
    Object.assign(row, values, { dueAt: dueIn === null ? undefined : now + dueIn, endedAt: now });
    if (type !== undefined) row.type = type;
    if (event !== undefined) {
      Object.assign(row, { event, receivedAt: now });
      this.#noteReceived(row);
    }
    if (dropsText) dropText(row);
    if (row.state === "done") this.#becameDone(row);
    if (delay !== undefined) delayUntil(record, now + delay);
    if (written !== undefined) remember(record, written.snapshot, written.changed, now);
    if (remove !== undefined) this.#remove(record, remove, now, row);
    for (const addition of additions) this.#add(addition, now);
    record.lease = undefined;
    this.#refresh(record, now);
    return { held: true, more: record.index !== -1 };
  }

  #alreadySettled({ eventId, lease }: ClaimedEvent): Settled {
    const row = this.#events.get(eventId);
    return { held: row?.lease === lease && row.state !== "processing", more: false };
  }

  protected async doNextDue(): Promise<Timed<number | undefined>> {
    const now = this.#now();
    const { time = LOCKED } = this.#due.first ?? {};
    return { now, result: time === LOCKED ? undefined : Math.max(0, time - now) };
  }

  protected async doSetBack(): Promise<void> {
    const now = this.#now();
    for (const record of this.#records.values()) {
      for (const row of record.events) {
        const { state, event } = row;
        const follows =
          state === "pending" ||
          state === "retrying" ||
          (state === "scheduled" && event.source === "recheck");
        if (follows && isOpen(row)) row.dueAt = Math.min(row.dueAt, now);
      }
      const { lease } = record;
      if (lease !== undefined) {
        lease.row.dueAt = Math.min(lease.row.dueAt!, now + lease.duration);
        if (!isLocked(record)) lease.end = lease.row.dueAt;
      }
      this.#refresh(record);
    }
  }

  protected async doRemove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    const record = this.#records.get(ref);
    return record === undefined ? 0 : this.#remove(record, what, this.#now());
  }

  #remove(record: RecordRow, what: readonly string[] | "timers", now: number, kept?: EventRow): number {
    const rows = [...record.events].filter(
      ({ event, state }) =>
        (state !== "done" || event.source === "timer") &&
        (what === "timers" ? event.source === "timer" : what.includes(event.eventId)),
    );
    const removed = rows.filter(
      (row) => row !== kept && (row.state !== "processing" || record.lease!.end <= now),
    );
    for (const row of removed) {
      if (record.lease?.row === row) record.lease = undefined;
      this.#forget(row);
    }
    this.#refresh(record);
    return removed.length;
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = this.#events.get(eventId);
    return row && toStoredEvent(row);
  }

  protected async doList(filter: RowFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const rows = this.#matching(filter, before).slice(0, limit);
    return { found: rows.map(toStoredEvent), next: undefined };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return this.#events.get(eventId)?.arrival;
  }

  /** Changes all matching events in one step, because Node would run no I/O between batches. */
  protected async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
  ): Promise<Sliced<number>> {
    const now = this.#now();
    const rows = this.#matching(filter).filter(
      // An event that is due needs no replay.
      (row) => states.includes(row.state) && !(change === "replay" && isOpen(row) && row.dueAt <= now),
    );
    for (const row of rows) {
      if (change === "replay") this.#replay(row, now);
      else this.#discard(row, now);
    }
    return { found: rows.length, next: undefined };
  }

  #replay(row: EventRow, now: number): void {
    this.#notDone(row);
    if (isOpen(row)) row.dueAt = Math.min(row.dueAt, now);
    else Object.assign(row, beginAnew("pending", now), { replayed: true });
    this.#becomeDue(row);
  }

  #discard(row: EventRow, now: number): void {
    Object.assign(row, { state: "done", reason: "discarded", dueAt: undefined, endedAt: now });
    if (row.event.ref === null) dropText(row);
    this.#becameDone(row);
    this.#refresh(row.record);
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const counts = { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
    for (const { state } of this.#events.values()) counts[state] += 1;
    return counts;
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    const now = this.#now();
    let since = Number.POSITIVE_INFINITY;
    for (const row of this.#events.values()) {
      if (isWaiting(row, now))
        since = Math.min(since, row.state === "scheduled" ? row.dueAt! : row.receivedAt);
    }
    return since === Number.POSITIVE_INFINITY ? undefined : Math.max(0, now - since);
  }

  /** Makes no list: the backlog limit asks twice a second, while notifications wait for their answer. */
  protected async doScheduledDue(): Promise<number> {
    const now = this.#now();
    let count = 0;
    for (const { state, dueAt } of this.#events.values())
      if (state === "scheduled" && dueAt! <= now) count += 1;
    return count;
  }

  protected async doLastReceivedAt(): Promise<number | undefined> {
    return this.#lastReceivedAt;
  }

  protected async doErase(ref: string): Promise<number | undefined> {
    const record = this.#records.get(ref);
    if (record === undefined) return 0;
    if (record.lease !== undefined && record.lease.end > this.#now()) return undefined;
    const erased = [...record.events];
    for (const row of erased) this.#forget(row);
    record.lease = record.snapshot = undefined;
    this.#refresh(record);
    return erased.length;
  }

  protected async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    const record = this.#records.get(ref);
    return record?.snapshot && toRecordSnapshot(record);
  }

  /** Returns all snapshots in one page. With several pages, each page would sort all records again. */
  protected async doSnapshots(after: string | undefined): Promise<RecordSnapshot[]> {
    return [...this.#records.values()]
      .filter(({ ref, snapshot }) => snapshot !== undefined && (after === undefined || ref! > after))
      .sort((a, b) => (a.ref! < b.ref! ? -1 : 1))
      .map(toRecordSnapshot);
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const now = this.#now();
    const known = this.#records.get(ref);
    if (known?.snapshot !== undefined) {
      if (!isSameSnapshot(known.snapshot, snapshot)) return false;
      remember(known, snapshot, false, now);
      return true;
    }
    for (const row of known?.events ?? []) {
      if (isWaiting(row, now) || row.state === "processing" || row.state === "parked") return false;
    }
    remember(this.#recordOf(ref, ref), snapshot, true, now);
    return true;
  }

  protected async doGetMeta(key: string) {
    const meta = this.#meta.get(key);
    return meta && { value: meta.value, age: Math.max(0, this.#now() - meta.setAt) };
  }

  protected async doSetMeta(key: string, value: string | undefined, expected: string | undefined) {
    if (this.#meta.get(key)?.value !== expected) return false;
    if (value === undefined) this.#meta.delete(key);
    else this.#meta.set(key, { value, setAt: this.#now() });
    return true;
  }

  protected async doPrune({ state, reason, age, limit }: PruneOptions): Promise<number> {
    const until = this.#now() - age;
    const rows = (state === "done" ? [...this.#done, ...this.#doneTimers] : this.#matching({ state, reason }))
      .filter((row) => row.endedAt <= until && !isFiredTimer(row))
      .sort((a, b) => a.endedAt - b.endedAt)
      .slice(0, limit);
    for (const row of rows) this.#forget(row);
    for (const { record } of rows) this.#refresh(record);
    return rows.length;
  }

  protected async doPruneSnapshots({ age, limit }: PruneSnapshotsOptions): Promise<number> {
    const until = this.#now() - age;
    const records = [...this.#records.values()]
      .filter(({ snapshot, seenAt, index }) => snapshot !== undefined && seenAt <= until && index === -1)
      .sort((a, b) => a.seenAt - b.seenAt)
      .slice(0, limit);
    for (const record of records) {
      record.snapshot = undefined;
      record.sequence = 0;
      this.#refresh(record);
    }
    return records.length;
  }

  protected async doRestore(
    events: readonly StoredEvent[],
    snapshots: readonly RecordSnapshot[],
  ): Promise<void> {
    for (const event of events) {
      if (this.#events.has(event.eventId)) continue;
      this.#insert(restoredRow(event, this.#recordOf(event.ref, event.eventId), this.#nextArrival()));
    }
    for (const { ref, snapshot, sequence, seenAt } of snapshots) {
      const record = this.#recordOf(ref, ref);
      if (record.snapshot !== undefined) continue;
      Object.assign(record, { snapshot: copyOfSnapshot(snapshot), sequence, seenAt: seenAt.getTime() });
    }
  }

  protected async doClose(): Promise<void> {}

  #now(): number {
    const moved = clockOffset() - this.#clockOffset;
    if (moved !== 0) this.#shiftLeases(moved);
    return Date.now() + this.#clockOffset;
  }

  /** Moves the ends of all leases: when a sandbox moves the clock, attempts that run keep their leases. */
  #shiftLeases(ms: number): void {
    this.#clockOffset += ms;
    for (const record of this.#records.values()) {
      if (record.lease === undefined) continue;
      record.lease.end += ms;
      record.lease.row.dueAt! += ms;
      this.#refresh(record);
    }
  }

  #nextArrival(): number {
    this.#arrivals += 1;
    return this.#arrivals;
  }

  /** Returns the event's record. An event without a `ref` has a record of its own, whose key is no `ref`. */
  #recordOf(ref: string | null, eventId: string): RecordRow {
    const key = ref ?? `\0${eventId}`;
    let record = this.#records.get(key);
    if (record === undefined) {
      record = newRecordRow(key, ref);
      this.#records.set(key, record);
    }
    return record;
  }

  /** Returns the claim's row, or `undefined` if the claim's lease is lost. */
  #held({ eventId, lease }: ClaimedEvent): EventRow | undefined {
    const row = this.#events.get(eventId);
    return row !== undefined && row.record.lease?.row === row && row.lease === lease ? row : undefined;
  }

  /** Makes the record due when the event is due, or earlier. A lease keeps its time. */
  #becomeDue({ record, dueAt }: EventRow): void {
    if (dueAt === undefined || record.lease !== undefined) return;
    this.#due.set(record, record.index === -1 ? dueAt : Math.min(record.time, dueAt));
  }

  /** Makes the record due when its lease ends. Without a lease: when its first event is due, but not before `from`. */
  #refresh(record: RecordRow, from = Number.NEGATIVE_INFINITY): void {
    const due = record.lease?.end ?? firstOf(record)?.dueAt;
    this.#due.set(record, due === undefined ? undefined : Math.max(due, from));
    const isEmpty = record.events.size === 0 && record.snapshot === undefined;
    if (isEmpty && record.lease === undefined) this.#records.delete(record.key);
  }

  #becameDone(row: EventRow): void {
    if (row.event.source === "timer") {
      this.#doneTimers.add(row);
      return;
    }
    this.#done.add(row);
    if (this.#done.size <= MOST_DONE) return;
    const [oldest] = this.#done;
    this.#forget(oldest!);
    this.#refresh(oldest!.record);
  }

  #notDone(row: EventRow): void {
    this.#done.delete(row);
    this.#doneTimers.delete(row);
  }

  #forget(row: EventRow): void {
    this.#events.delete(row.event.eventId);
    this.#notDone(row);
    row.record.events.delete(row);
  }

  /** Returns the events that match `filter`, the newest first. */
  #matching(filter: RowFilter, before = Number.POSITIVE_INFINITY): EventRow[] {
    const { eventId, ref } = filter;
    let rows: Iterable<EventRow | undefined> = this.#events.values();
    if (eventId !== undefined) rows = [this.#events.get(eventId)];
    else if (ref !== undefined) rows = this.#records.get(ref)?.events ?? [];
    return [...rows]
      .filter((row) => row !== undefined)
      .filter((row) => row.arrival < before && isMatch(row, filter))
      .reverse();
  }
}

/** Returns the record's open event that is due first. If two due times are equal: the event that arrived first. */
function firstOf({ events }: RecordRow): (EventRow & { dueAt: number }) | undefined {
  let first: (EventRow & { dueAt: number }) | undefined;
  for (const row of events) if (isOpen(row) && !(first && first.dueAt <= row.dueAt)) first = row;
  return first;
}

function delayUntil({ events }: RecordRow, at: number): void {
  for (const row of events) {
    if (row.state === "pending" || row.state === "retrying") row.dueAt = Math.max(row.dueAt!, at);
  }
}

function remember(record: RecordRow, snapshot: Snapshot, changed: boolean, now: number): void {
  if (changed || record.snapshot === undefined) record.sequence += 1;
  record.snapshot = copyOfSnapshot(snapshot);
  record.seenAt = now;
}

/** A timer that has fired is kept as long as its record's snapshot, so that a callback does not set it again. */
function isFiredTimer({ state, event, record }: EventRow): boolean {
  return state === "done" && event.source === "timer" && record.snapshot !== undefined;
}

/** Runs functions in order. Does not await a synchronous function, because a synchronous transaction would end. */
function runInOrder(functions: readonly (() => unknown)[], from = 0): void | Promise<void> {
  for (let index = from; index < functions.length; index++) {
    const running = functions[index]!();
    if (isThenable(running)) return Promise.resolve(running).then(() => runInOrder(functions, index + 1));
  }
}
