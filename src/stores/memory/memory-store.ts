import { type AddAnswer, BaseStore, isSameSnapshot, type Slice, type Sliced } from "../base-store.ts";
import type { EventState } from "../event-states.ts";
import { type Change, changedFrom } from "../event-states.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { ClaimOrder } from "./claim-order.ts";
import {
  beginAnew,
  copyOf,
  type EventRow,
  hasOpen,
  isMatch,
  isOpen,
  newEventRow,
  newRecordRow,
  note,
  OrderedSet,
  place,
  postpone,
  type RecordRow,
  toClaim,
  toRecordSnapshot,
  toStoredEvent,
} from "./memory-rows.ts";

/**
 * The simplest store. Tests compare the behavior of all other stores with this store.
 *
 * No method awaits between reading and writing, so each method is atomic.
 */
export class MemoryStore extends BaseStore {
  readonly #max: number;
  readonly #events = new Map<string, EventRow>();
  /** The events of each state, in the order in which they entered this state. */
  readonly #byState: Record<EventState, OrderedSet<EventRow>> = {
    pending: new OrderedSet(),
    processing: new OrderedSet(),
    retrying: new OrderedSet(),
    done: new OrderedSet(),
    parked: new OrderedSet(),
  };
  /** Records with a snapshot, and records with a pending, retrying or processing event. */
  readonly #records = new Map<string, RecordRow>();
  /** The locks of pending, retrying and processing events that have no record. */
  readonly #ownLocks = new Map<EventRow, RecordRow>();
  /** Records with a snapshot, ordered by `seenAt`. */
  readonly #seen = new OrderedSet<RecordRow>();
  readonly #order = new ClaimOrder();
  readonly #meta = new Map<string, { readonly value: string; readonly setAt: number }>();
  #newestReceived: number | undefined;
  #arrivals = 0;
  #leases = 0;

  /** @param max - the maximum number of done events that the store keeps */
  constructor(max: number) {
    super();
    this.#max = max;
  }

  protected async doAdd(event: NewEvent, dueIn: number | undefined): Promise<AddAnswer> {
    const known = this.#events.get(event.eventId);
    if (known !== undefined) return known.event.ref === event.ref ? "duplicate" : "conflict";
    const now = this.#now();
    this.#arrivals += 1;
    const row = newEventRow(event, this.#arrivals, now, dueIn);
    this.#events.set(event.eventId, row);
    this.#byState.pending.add(row);
    if (event.source === "webhook") this.#newestReceived = now;
    const record = this.#lockOf(row);
    record.pending.push(row);
    if (dueIn === undefined && record.wait === undefined) {
      this.#order.refreshAdded(record);
    } else {
      if (dueIn === undefined) record.wait = undefined;
      this.#order.refresh(record);
    }
    this.subscribers.wake();
    return "added";
  }

  protected async doClaim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    const { limit, leaseDuration, worker, eventId, order = "oldest" } = options;
    const now = this.#now();
    const claims: ClaimedEvent[] = [];
    while (claims.length < limit) {
      const found = eventId === undefined ? this.#order.next(order) : this.#events.get(eventId);
      if (found === undefined || !this.#isReady(found)) break;
      claims.push(this.#lease(found, now, Math.max(1, leaseDuration), worker));
    }
    return claims;
  }

  protected async doRenew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    const leaseEnd = this.#now() + Math.max(1, leaseDuration);
    return claims.filter((claim) => {
      const row = this.#held(claim);
      if (row === undefined) return false;
      row.leaseEnd = leaseEnd;
      this.#order.refresh(this.#lockOf(row));
      return true;
    });
  }

  protected async doSettle(claim: ClaimedEvent, outcome: Outcome): Promise<boolean> {
    const now = this.#now();
    const row = this.#held(claim);
    if (row === undefined) return false;
    const record = this.#lockOf(row);
    record.lease = undefined;
    this.#end(row, record, outcome, now);
    this.#order.refresh(record);
    if (hasOpen(record)) this.subscribers.wake();
    return true;
  }

  protected async doNextDue(): Promise<number | undefined> {
    const now = this.#now();
    const at = this.#order.nextReady;
    return at === Number.POSITIVE_INFINITY ? undefined : at - now;
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = this.#events.get(eventId);
    return row && this.#toStoredEvent(row);
  }

  protected async doList(filter: EventFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const rows = this.#matching(filter, before).slice(0, limit);
    return { found: rows.map((row) => this.#toStoredEvent(row)), next: undefined };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return this.#events.get(eventId)?.arrival;
  }

  /** Changes all matching events in one step, because Node would run no I/O between batches. */
  protected async doChange(change: Change, filter: EventFilter): Promise<Sliced<number>> {
    const now = this.#now();
    const rows = this.#matching(filter).filter(({ state }) => changedFrom[change].includes(state));
    const touched = new Set<RecordRow>();
    for (const row of rows) {
      const record = this.#lockOf(row);
      if (change === "replay") this.#replay(row, record, now);
      else this.#discard(row, record, now);
      touched.add(record);
    }
    for (const record of touched) this.#order.refresh(record);
    if (rows.length > 0) this.subscribers.wake();
    return { found: rows.length, next: undefined };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const sizes = Object.entries(this.#byState).map(([state, rows]) => [state, rows.size]);
    return Object.fromEntries(sizes) as Record<EventState, number>;
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    const now = this.#now();
    let oldest: EventRow | undefined;
    for (const state of ["pending", "retrying", "processing"] as const) {
      for (const row of this.#byState[state]) {
        const { wait, leaseEnd, arrival } = row;
        if (state === "processing" && leaseEnd > now) continue;
        if (state === "pending" && wait !== undefined && now >= wait.from && now < wait.until) continue;
        if (oldest === undefined || arrival < oldest.arrival) oldest = row;
      }
    }
    return oldest && Math.max(0, now - oldest.receivedAt);
  }

  protected async doNewestReceived(): Promise<Date | undefined> {
    return this.#newestReceived === undefined ? undefined : new Date(this.#newestReceived);
  }

  protected async doErase(ref: string): Promise<number | undefined> {
    const now = this.#now();
    const rows = this.#matching({ ref });
    if (rows.some(({ state, leaseEnd }) => state === "processing" && leaseEnd > now)) return undefined;
    for (const row of rows) this.#forget(row);
    const record = this.#records.get(ref);
    if (record !== undefined) {
      record.pending.length = record.tried.length = 0;
      this.#order.refresh(record);
      this.#seen.delete(record);
      this.#records.delete(ref);
    }
    return rows.length;
  }

  protected async doRecordOf(ref: string): Promise<RecordSnapshot | undefined> {
    const record = this.#records.get(ref);
    return record?.snapshot && toRecordSnapshot(record);
  }

  /** Returns all records in one page. With several pages, each page would sort all records again. */
  protected async doRecords(after: string | undefined): Promise<RecordSnapshot[]> {
    return [...this.#seen]
      .filter(({ ref }) => after === undefined || ref! > after)
      .sort((a, b) => (a.ref! < b.ref! ? -1 : 1))
      .map(toRecordSnapshot);
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const known = this.#records.get(ref);
    if (known?.snapshot !== undefined) {
      if (!isSameSnapshot(known.snapshot, snapshot)) return false;
    } else if (known !== undefined || this.#matching({ ref, state: "parked" }).length > 0) {
      return false;
    }
    const record = known ?? newRecordRow(ref);
    this.#records.set(ref, record);
    this.#remember(record, snapshot, known === undefined, this.#now());
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
    let pruned = 0;
    for (const row of this.#byState[state]) {
      if (pruned >= limit) break;
      if (row.endedAt > until || (reason !== undefined && row.reason !== reason)) continue;
      this.#forget(row);
      pruned += 1;
    }
    return pruned;
  }

  protected async doPruneRecords({ age, limit }: PruneRecordsOptions): Promise<number> {
    const until = this.#now() - age;
    let pruned = 0;
    for (const record of this.#seen) {
      if (pruned >= limit) break;
      if (record.seenAt > until || hasOpen(record)) continue;
      this.#seen.delete(record);
      this.#records.delete(record.ref!);
      pruned += 1;
    }
    return pruned;
  }

  protected async doClose(): Promise<void> {}

  #now(): number {
    const now = Date.now();
    this.#order.pass(now);
    return now;
  }

  /** Returns the row of the event's record. An event without a record has a row of its own. */
  #lockOf(row: EventRow): RecordRow {
    const { ref } = row.event;
    const known = ref === null ? this.#ownLocks.get(row) : this.#records.get(ref);
    if (known !== undefined) return known;
    const record = newRecordRow(ref);
    if (ref === null) this.#ownLocks.set(row, record);
    else this.#records.set(ref, record);
    return record;
  }

  #isReady(row: EventRow): boolean {
    return isOpen(row) && this.#order.isReady(row, this.#lockOf(row));
  }

  #lease(row: EventRow, now: number, leaseDuration: number, worker: string | undefined): ClaimedEvent {
    const record = this.#lockOf(row);
    if (row.state === "processing")
      note(row, "lost", { duration: Math.max(0, row.leaseEnd - row.claimedAt) });
    this.#leases += 1;
    const token = String(this.#leases);
    record.lease = { token, row };
    row.attempts += 1;
    row.wait = undefined;
    row.claimedAt = now;
    row.leaseEnd = now + leaseDuration;
    row.worker = worker;
    this.#setState(row, record, "processing");
    this.#order.refresh(record);
    return toClaim(row, record, token);
  }

  /** Returns the claim's row, or `undefined` if the claim's lease is lost. */
  #held(claim: ClaimedEvent): EventRow | undefined {
    const row = this.#events.get(claim.eventId);
    if (row?.state !== "processing") return undefined;
    const { lease } = this.#lockOf(row);
    return lease?.token === claim.lease && lease.row === row ? row : undefined;
  }

  #end(row: EventRow, record: RecordRow, outcome: Outcome, now: number): void {
    if (outcome.state === "released") {
      row.attempts -= 1;
      const isFirst = row.attempts === 0 && row.outages === 0;
      this.#setState(row, record, isFirst ? "pending" : "retrying");
      return;
    }
    note(row, outcome.state, outcome.entry);
    row.type = outcome.type ?? row.type;
    row.reason = outcome.state === "done" ? null : outcome.reason;
    if (outcome.state !== "retrying") {
      if (outcome.state === "done" && outcome.record && record.ref !== null) {
        this.#remember(record, outcome.record.snapshot, outcome.record.changed, now);
      }
      this.#finish(row, record, outcome.state, now);
      return;
    }
    postpone(row, record, outcome, now);
    this.#setState(row, record, "retrying");
  }

  #remember(record: RecordRow, snapshot: Snapshot, changed: boolean, now: number): void {
    record.snapshot = copyOf(snapshot);
    if (changed) record.sequence += 1;
    record.seenAt = now;
    this.#seen.add(record);
  }

  #replay(row: EventRow, record: RecordRow, now: number): void {
    record.wait = undefined;
    row.wait = undefined;
    if (row.state === "retrying") {
      row.dueAt = Math.min(row.dueAt, now);
      return;
    }
    beginAnew(row, now);
    this.#setState(row, record, "pending");
  }

  #discard(row: EventRow, record: RecordRow, now: number): void {
    row.reason = "discarded";
    this.#finish(row, record, "done", now);
  }

  #setState(row: EventRow, record: RecordRow, state: EventState): void {
    this.#byState[row.state].delete(row);
    row.state = state;
    this.#byState[state].add(row);
    place(row, record);
  }

  #finish(row: EventRow, record: RecordRow, state: "done" | "parked", now: number): void {
    row.endedAt = now;
    this.#setState(row, record, state);
    if (!hasOpen(record)) {
      if (record.ref === null) this.#ownLocks.delete(row);
      else if (record.snapshot === undefined) this.#records.delete(record.ref);
    }
    const { done } = this.#byState;
    if (done.size > this.#max) this.#forget(done.first!);
  }

  #forget(row: EventRow): void {
    this.#events.delete(row.event.eventId);
    this.#byState[row.state].delete(row);
  }

  /** Returns the events that match `filter`, the newest first. */
  #matching(filter: EventFilter, before = Number.POSITIVE_INFINITY): EventRow[] {
    const { eventId, state } = filter;
    const all = state === undefined ? this.#events.values() : this.#byState[state];
    const rows = eventId === undefined ? all : [this.#events.get(eventId)];
    return [...rows]
      .filter((row) => row !== undefined)
      .filter((row) => row.arrival < before && isMatch(row, filter))
      .sort((a, b) => b.arrival - a.arrival);
  }

  #toStoredEvent(row: EventRow): StoredEvent {
    return toStoredEvent(row, isOpen(row) ? this.#lockOf(row) : undefined);
  }
}
