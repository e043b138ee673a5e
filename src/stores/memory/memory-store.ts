import { splitKey } from "../../account.ts";
import { BaseStore } from "../base-store.ts";
import type { RowFilter } from "../event-filter.ts";
import type { Change, EventState } from "../event-states.ts";
import type { ClaimOptions, PruneOptions, PruneSnapshotsOptions, Write } from "../event-store.ts";
import {
  type Addition,
  copyOfSnapshot,
  type EventChange,
  historyOfReplaced,
  isSameSnapshot,
  replaces,
  type Settlement,
  stateOfNew,
} from "../outcomes.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordSnapshot, Snapshot } from "../snapshot.ts";
import type { Timed } from "../store-clock.ts";
import type { AddAnswer, ClaimCall, Claimed, ClaimResult, EraseStep, Settled } from "../store-steps.ts";
import type { ClaimedEvent, StoredEvent } from "../stored-event.ts";
import {
  delayUntil,
  dropText,
  type EventRow,
  firstOf,
  isLocked,
  isOpen,
  isWaiting,
  LOCKED,
  newEventRow,
  type RecordRow,
  remember,
  restoredRow,
  toClaim,
  toRecordSnapshot,
  toStoredEvent,
} from "./memory-rows.ts";
import { MemoryTables } from "./memory-tables.ts";
import { type RunTransaction, runInOrder } from "./memory-transaction.ts";

/**
 * The plain model of a store. Tests compare the behavior of all other stores with this store.
 *
 * No step awaits between reading and writing, so each step is atomic. The steps are public, because `documentStore` runs them
 * on the rows that it has read.
 */
export class MemoryStore<Tx = never> extends BaseStore<Tx> {
  declare readonly transactional?: true;
  readonly #transaction: RunTransaction<Tx> | undefined;
  readonly #tables: MemoryTables;
  readonly #meta = new Map<string, { readonly value: string; readonly setAt: number }>();

  /** @param transaction - runs the writes of `event.atomically` in the user's database */
  constructor(transaction?: RunTransaction<Tx>, tables = new MemoryTables()) {
    super();
    this.#tables = tables;
    this.#transaction = transaction;
    if (transaction) this.transactional = true;
  }

  async doAdd(additions: readonly Addition[]): Promise<AddAnswer[]> {
    const now = this.#tables.now();
    return additions.map((addition) => this.#add(addition, now));
  }

  #add(addition: Addition, now: number): AddAnswer {
    const { event } = addition;
    const known = this.#tables.events.get(event.eventId);
    if (known !== undefined) return this.#replace(known, addition, now);
    const record = this.#tables.recordFor(event.ref, event.eventId);
    this.#tables.insert(newEventRow(addition, record, this.#tables.nextArrival(), now));
    return "added";
  }

  #replace(row: EventRow, addition: Addition, now: number): AddAnswer {
    const { event, replace, dueIn } = addition;
    if (row.event.ref !== event.ref) return "conflict";
    const isReplaced = replaces(addition, row.event, row.state);
    if (row.state === "processing" && row.record.lease!.end > now)
      return isReplaced || replace === "ended" ? "busy" : "duplicate";
    if (!isReplaced) return "duplicate";
    if (row.state === "processing") this.#tables.expire(row.record, now);
    this.#tables.beginAnew(row, stateOfNew(addition), now + dueIn);
    row.event = event;
    row.receivedAt = now;
    row.replayed = false;
    row.history = historyOfReplaced(event, row.history);
    this.#tables.noteReceived(row);
    this.#tables.notDone(row);
    this.#tables.refresh(row.record);
    return "added";
  }

  async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    const now = this.#tables.now();
    const claimed: Claimed[] = [];
    for (const record of this.#tables.candidates(call, now)) {
      if (claimed.length >= call.limit) break;
      const row = call.eventId === undefined ? firstOf(record) : this.#tables.events.get(call.eventId);
      // An ended lease stays valid until an event of the record is claimed.
      if (row !== undefined && isOpen(row) && row.dueAt <= now) {
        this.#tables.expire(record, now);
        claimed.push(this.#lease(row, now, call, `${call.token}:${claimed.length}`));
      } else {
        // A replaced event may be due later than its record.
        this.#tables.refresh(record);
      }
    }
    return { now, result: { claimed, nextDueAt: this.#nextDueAt } };
  }

  #lease(row: EventRow, now: number, { leaseDuration, worker }: ClaimOptions, token: string): Claimed {
    const { record } = row;
    const end = now + leaseDuration;
    record.lease = { row, end, duration: leaseDuration };
    this.#tables.setState(row, "processing");
    row.dueAt = end;
    row.attempts += 1;
    row.claimedAt = now;
    row.worker = worker;
    row.lease = token;
    this.#tables.refresh(record);
    return { claim: toClaim(row, token), row: { history: row.history, worker } };
  }

  async doRenew(claims: readonly ClaimedEvent[], duration: number): Promise<string[]> {
    const end = this.#tables.now() + duration;
    const held = claims.filter((claim) => {
      const row = this.#tables.held(claim);
      if (row === undefined) return false;
      row.dueAt = end;
      row.record.lease = { row, end: isLocked(row.record) ? LOCKED : end, duration };
      this.#tables.refresh(row.record);
      return true;
    });
    return held.map(({ lease }) => lease);
  }

  async doSettle(settlements: readonly Settlement<Tx>[]): Promise<Settled[]> {
    for (const { claim, writes } of settlements) {
      if (writes.length === 0 || this.#transaction === undefined) continue;
      if (this.#tables.held(claim) === undefined) return [this.#alreadySettled(claim)];
      if (!(await this.#runWrites(claim, writes))) return [{ held: false, more: false }];
    }
    const now = this.#tables.now();
    return settlements.map((settlement) => this.#settle(settlement, now));
  }

  /** @returns `false` if the lease was lost meanwhile. The transaction is then rolled back */
  async #runWrites(claim: ClaimedEvent, writes: readonly Write<Tx>[]): Promise<boolean> {
    const lost = new Error(`The lease of event ${claim.eventId} was lost while its writes ran.`);
    const check = (): void => {
      if (this.#tables.held(claim) === undefined) throw lost;
      // A claim during the COMMIT would run the writes twice.
      this.#tables.endLeaseAt(claim, LOCKED);
    };
    try {
      await this.#transaction!((tx) => runInOrder([...writes.map((write) => () => write(tx)), check]));
      return true;
    } catch (error) {
      if (error === lost) return false;
      this.#tables.endLeaseAt(claim, this.#tables.held(claim)?.dueAt);
      throw error;
    }
  }

  #settle(settlement: Settlement<Tx>, now: number): Settled {
    const { claim, delay, record: written, remove, additions } = settlement;
    const row = this.#tables.held(claim);
    if (row === undefined) return this.#alreadySettled(claim);
    const { record } = row;
    this.#change(row, settlement.change, now);
    if (row.state === "done") this.#tables.becameDone(row);
    if (delay !== undefined) delayUntil(record, now + delay);
    if (written !== undefined) remember(record, written.snapshot, written.changed, now);
    if (remove !== undefined) this.#tables.remove(record, remove, now, row);
    for (const addition of additions) this.#add(addition, now);
    record.lease = undefined;
    this.#tables.refresh(record, now);
    return { held: true, more: record.index !== -1 };
  }

  #change(row: EventRow, change: EventChange, now: number): void {
    this.#tables.setState(row, change.state);
    row.dueAt = change.dueIn === null ? undefined : now + change.dueIn;
    row.attempts = change.attempts;
    row.outages = change.outages;
    row.firstOutageAt = change.firstOutageAt;
    row.replayed = change.replayed;
    row.type = change.type ?? row.type;
    row.reason = change.reason;
    row.history = change.history;
    row.endedAt = now;
    if (change.event !== undefined) {
      row.event = change.event;
      row.receivedAt = now;
      this.#tables.noteReceived(row);
    }
    if (change.dropsText) dropText(row);
  }

  #alreadySettled({ eventId, lease }: ClaimedEvent): Settled {
    const row = this.#tables.events.get(eventId);
    const held = row?.lease === lease && row.state !== "processing";
    return { held, more: held };
  }

  async doNextDue(): Promise<Timed<number | undefined>> {
    const [now, at] = [this.#tables.now(), this.#nextDueAt];
    return { now, result: at === null ? undefined : Math.max(0, at - now) };
  }

  get #nextDueAt(): number | null {
    const { time = LOCKED } = this.#tables.due.first ?? {};
    return time === LOCKED ? null : time;
  }

  async doSetBack(): Promise<void> {
    const now = this.#tables.now();
    for (const record of this.#tables.records.values()) {
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
      this.#tables.refresh(record);
    }
  }

  async doRemove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    const record = this.#tables.records.get(ref);
    return record === undefined ? 0 : this.#tables.remove(record, what, this.#tables.now());
  }

  async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = this.#tables.events.get(eventId);
    return row && toStoredEvent(row);
  }

  async doList(filter: RowFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const rows = this.#tables.matching(filter, before).slice(0, limit);
    return { found: rows.map(toStoredEvent), next: undefined };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return this.#tables.events.get(eventId)?.arrival;
  }

  /** Changes all matching events in one step, because Node would run no I/O between batches. */
  async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    { before }: Slice,
  ): Promise<Sliced<number>> {
    const now = this.#tables.now();
    const rows = this.#tables.matching(filter, before).filter(
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
    this.#tables.notDone(row);
    if (isOpen(row)) row.dueAt = Math.min(row.dueAt, now);
    else {
      this.#tables.beginAnew(row, "pending", now);
      row.replayed = true;
    }
    this.#tables.becomeDue(row);
  }

  #discard(row: EventRow, now: number): void {
    this.#tables.setState(row, "done");
    row.reason = "discarded";
    row.dueAt = undefined;
    row.endedAt = now;
    if (row.event.ref === null) dropText(row);
    this.#tables.becameDone(row);
    this.#tables.refresh(row.record);
  }

  async doCounts(): Promise<Record<EventState, number>> {
    return { ...this.#tables.counts };
  }

  async doOldestWaiting(): Promise<number | undefined> {
    const now = this.#tables.now();
    const since = this.#tables.oldestWaiting(now);
    return since === undefined ? undefined : Math.max(0, now - since);
  }

  async doScheduledDue(): Promise<number> {
    return this.#tables.scheduledDue(this.#tables.now());
  }

  async doLastReceivedAt(): Promise<number | undefined> {
    return this.#tables.lastReceivedAt;
  }

  async doErase(ref: string): Promise<number | undefined> {
    const record = this.#tables.records.get(ref);
    return record === undefined ? 0 : this.#eraseRecord(record)?.events;
  }

  async doEraseAccount(account: string): Promise<EraseStep> {
    const erased = { events: 0, snapshots: 0, processing: 0, next: undefined };
    const records = new Set([...(this.#tables.accounts.get(account) ?? [])].map(({ record }) => record));
    for (const record of this.#tables.records.values())
      if (record.ref !== null && splitKey(record.ref).account === account) records.add(record);
    for (const record of records) {
      const events = this.#eraseRecord(record);
      if (events === undefined) erased.processing += 1;
      else {
        erased.events += events.events;
        erased.snapshots += events.snapshots;
      }
    }
    return erased;
  }

  /** @returns `undefined` if an event of the record is being processed */
  #eraseRecord(record: RecordRow): { events: number; snapshots: number } | undefined {
    if (record.lease !== undefined && record.lease.end > this.#tables.now()) return undefined;
    const snapshots = record.snapshot === undefined ? 0 : 1;
    const erased = [...record.events];
    for (const row of erased) this.#tables.forget(row);
    record.lease = record.snapshot = undefined;
    this.#tables.refresh(record);
    return { events: erased.length, snapshots };
  }

  async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    const record = this.#tables.records.get(ref);
    return record?.snapshot && toRecordSnapshot(record);
  }

  /** Returns all snapshots in one page. With several pages, each page would sort all records again. */
  async doSnapshots(after: string | undefined): Promise<RecordSnapshot[]> {
    return [...this.#tables.records.values()]
      .filter(({ ref, snapshot }) => snapshot !== undefined && (after === undefined || ref! > after))
      .sort((a, b) => (a.ref! < b.ref! ? -1 : 1))
      .map(toRecordSnapshot);
  }

  async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const now = this.#tables.now();
    const known = this.#tables.records.get(ref);
    if (known?.snapshot !== undefined) {
      if (!isSameSnapshot(known.snapshot, snapshot)) return false;
      remember(known, snapshot, false, now);
      return true;
    }
    for (const row of known?.events ?? []) {
      if (isWaiting(row, now) || row.state === "processing" || row.state === "parked") return false;
    }
    remember(this.#tables.recordFor(ref, ref), snapshot, true, now);
    return true;
  }

  async doGetMeta(key: string) {
    const meta = this.#meta.get(key);
    return meta && { value: meta.value, age: Math.max(0, this.#tables.now() - meta.setAt) };
  }

  async doSetMeta(key: string, value: string | undefined, expected: string | undefined) {
    if (this.#meta.get(key)?.value !== expected) return false;
    if (value === undefined) this.#meta.delete(key);
    else this.#meta.set(key, { value, setAt: this.#tables.now() });
    return true;
  }

  async doPrune(options: PruneOptions): Promise<number> {
    const rows = this.#tables.prunable(options);
    for (const row of rows) this.#tables.forget(row);
    for (const { record } of rows) this.#tables.refresh(record);
    return rows.length;
  }

  async doPruneSnapshots(options: PruneSnapshotsOptions): Promise<number> {
    const records = this.#tables.prunableSnapshots(options);
    for (const record of records) {
      record.snapshot = undefined;
      record.sequence = 0;
      this.#tables.refresh(record);
    }
    return records.length;
  }

  async doRestore(events: readonly StoredEvent[], snapshots: readonly RecordSnapshot[]): Promise<void> {
    for (const event of events) {
      if (this.#tables.events.has(event.eventId)) continue;
      this.#tables.insert(
        restoredRow(event, this.#tables.recordFor(event.ref, event.eventId), this.#tables.nextArrival()),
      );
    }
    for (const { ref, snapshot, sequence, seenAt } of snapshots) {
      const record = this.#tables.recordFor(ref, ref);
      if (record.snapshot !== undefined) continue;
      Object.assign(record, { snapshot: copyOfSnapshot(snapshot), sequence, seenAt: seenAt.getTime() });
    }
  }

  async doClose(): Promise<void> {}
}
