import { type Restriction, takesOf } from "../beginnings.ts";
import type { RowFilter } from "../event-filter.ts";
import type { Change, EventState } from "../event-states.ts";
import type { Write } from "../event-store.ts";
import {
  type Addition,
  dueTime,
  type EventChange,
  historyOfReplaced,
  replaces,
  type Settlement,
  stateOfNew,
} from "../outcomes.ts";
import { RecordStore } from "../record-store.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordLedger, RecordSnapshot } from "../snapshot.ts";
import type { Timed } from "../store-clock.ts";
import type { ClaimOptions, PruneOptions, PruneSnapshotsOptions } from "../store-options.ts";
import type {
  AddAnswer,
  ClaimCall,
  Claimed,
  ClaimResult,
  RecordPage,
  Scope,
  Settled,
} from "../store-steps.ts";
import type { ClaimedEvent, RecordName, StoredEvent } from "../stored-event.ts";
import {
  delayUntil,
  dropText,
  type EventRow,
  firstOf,
  isLocked,
  isOpen,
  LOCKED,
  newEventRow,
  remember,
  toClaim,
  toName,
  toRecordSnapshot,
  toStoredEvent,
} from "./memory-rows.ts";
import { MemoryTables } from "./memory-tables.ts";
import { type RunTransaction, runInOrder } from "./memory-transaction.ts";
import { changeEvents, prune } from "./record-rules.ts";

/**
 * The plain model of a store. Tests compare the behavior of all other stores with this store.
 *
 * No step awaits between reading and writing, so each step is atomic.
 */
export class MemoryStore<Tx = never> extends RecordStore<Tx> {
  declare readonly transactional?: true;
  protected override readonly step = Number.POSITIVE_INFINITY;
  readonly #transaction: RunTransaction<Tx> | undefined;
  readonly #tables = new MemoryTables();
  readonly #meta = new Map<string, { readonly value: string; readonly setAt: number }>();

  /** @param transaction - runs the writes of `event.atomically` in the user's database */
  constructor(transaction?: RunTransaction<Tx>) {
    super();
    this.#transaction = transaction;
    if (transaction) this.transactional = true;
  }

  protected async doAdd(additions: readonly Addition[]): Promise<AddAnswer[]> {
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
    const { event, replace } = addition;
    if (row.event.ref !== event.ref) return "conflict";
    const isReplaced = replaces(addition, row.event, row.state);
    if (row.state === "processing" && row.record.lease!.end > now)
      return isReplaced || replace === "ended" ? "busy" : "duplicate";
    if (!isReplaced) return "duplicate";
    if (row.state === "processing") this.#tables.expire(row.record, now);
    this.#tables.beginAnew(row, stateOfNew(addition), dueTime(addition, now));
    row.event = event;
    row.receivedAt = now;
    row.replayed = false;
    row.history = historyOfReplaced(event, row.history);
    this.#tables.noteReceived(row);
    this.#tables.notDone(row);
    this.#tables.refresh(row.record);
    return "added";
  }

  protected async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    const now = this.#tables.now();
    const claimed: Claimed[] = [];
    for (const record of this.#tables.candidates(call, now)) {
      const row = call.eventId === undefined ? firstOf(record) : this.#tables.events.get(call.eventId);
      // An ended lease stays valid until an event of the record is claimed.
      if (row !== undefined && isOpen(row) && row.dueAt <= now) {
        this.#tables.expire(record, now);
        claimed.push(this.#lease(row, now, call, `${call.token}:${claimed.length}`));
      } else {
        // A replaced event may be due later than its record.
        this.#tables.refresh(record);
      }
      // Ask for no further candidate: with `except`, to find one may take long.
      if (claimed.length >= call.limit) break;
    }
    const isFull = claimed.length >= call.limit && takesOf(call) !== undefined;
    return { now, result: { claimed, nextDueAt: isFull ? undefined : this.#nextDueAt(call) } };
  }

  #lease(
    row: EventRow & { dueAt: number },
    now: number,
    { leaseDuration, worker }: ClaimOptions,
    token: string,
  ): Claimed {
    const { record, dueAt } = row;
    const end = now + leaseDuration;
    record.lease = { row, end, duration: leaseDuration };
    this.#tables.setState(row, "processing");
    row.dueAt = end;
    row.attempts += 1;
    row.claimedAt = now;
    row.worker = worker;
    row.lease = token;
    this.#tables.refresh(record);
    return { claim: toClaim(row, token, dueAt), row: { history: row.history, worker } };
  }

  protected async doRenew(claims: readonly ClaimedEvent[], duration: number): Promise<string[]> {
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

  protected async doSettle(settlements: readonly Settlement<Tx>[]): Promise<Settled[]> {
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
    const { claim, delay, record: written, ledger, remove, additions } = settlement;
    const row = this.#tables.held(claim);
    if (row === undefined) return this.#alreadySettled(claim);
    const { record } = row;
    this.#change(row, settlement.change, now);
    if (row.state === "done") this.#tables.becameDone(row);
    if (delay !== undefined) delayUntil(record, now + delay);
    if (written !== undefined) remember(record, written.snapshot, written.changed, now);
    if (ledger !== undefined) record.ledger = ledger ?? undefined;
    if (remove !== undefined) this.#tables.remove(record, remove, now, row);
    for (const addition of additions) this.#add(addition, now);
    record.lease = undefined;
    this.#tables.refresh(record, now);
    return { held: true, more: record.index !== -1 };
  }

  #change(row: EventRow, change: EventChange, now: number): void {
    this.#tables.setState(row, change.state);
    const { dueIn, dueAt } = change;
    row.dueAt = dueIn === null ? undefined : dueTime({ dueIn, dueAt }, now);
    row.attempts = change.attempts;
    row.outages = change.outages;
    row.firstOutageAt = change.firstOutageAt;
    row.failures = change.failures;
    row.refusals = change.refusals;
    row.replayed = change.replayed;
    row.type = change.type ?? row.type;
    row.reason = change.reason;
    row.history = change.history;
    row.endedAt = now;
    if (change.event !== undefined) {
      row.event = change.event;
      row.receivedAt = now;
      row.firstDueAt = row.dueAt ?? row.firstDueAt;
      this.#tables.noteReceived(row);
    }
    if (change.dropsText) dropText(row);
  }

  #alreadySettled({ eventId, lease }: ClaimedEvent): Settled {
    const row = this.#tables.events.get(eventId);
    const held = row?.lease === lease && row.state !== "processing";
    return { held, more: held };
  }

  /** The store has the clock of this process, which a sandbox moves. */
  protected override toStoreTime(at: number): number {
    return at;
  }

  protected async doNextDue(restriction: Restriction): Promise<Timed<number | undefined>> {
    const [now, at] = [this.#tables.now(), this.#nextDueAt(restriction)];
    return { now, result: at === null ? undefined : Math.max(0, at - now) };
  }

  #nextDueAt(restriction: Restriction): number | null {
    const takes = takesOf(restriction);
    const first = takes === undefined ? this.#tables.due.first : this.#tables.firstDue(takes, LOCKED, 1)[0];
    const { time = LOCKED } = first ?? {};
    return time === LOCKED ? null : time;
  }

  /** The step is atomic, because the rule does not await. */
  protected override async withRecords<T>(_: Scope, rule: (tables: MemoryTables) => T): Promise<T> {
    return rule(this.#tables);
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = this.#tables.events.get(eventId);
    return row && toStoredEvent(row);
  }

  protected async doList(filter: RowFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const rows = this.#tables.matching(filter, before).slice(0, limit);
    return { found: rows.map(toStoredEvent), next: undefined };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return this.#tables.events.get(eventId)?.arrival;
  }

  /** Changes all matching events in one step, because Node would run no I/O between batches. */
  protected async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    { before }: Slice,
  ): Promise<Sliced<number>> {
    const rows = this.#tables.matching(filter, before);
    return { found: changeEvents(this.#tables, change, rows, states), next: undefined };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    return { ...this.#tables.counts };
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    const now = this.#tables.now();
    const since = this.#tables.oldestWaiting(now);
    return since === undefined ? undefined : Math.max(0, now - since);
  }

  protected async doScheduledDue(): Promise<number> {
    return this.#tables.scheduledDue(this.#tables.now());
  }

  protected async doLastReceivedAt(): Promise<number | undefined> {
    return this.#tables.lastReceivedAt;
  }

  /** Names all records, because one run of the rule finds its own. */
  protected async dueRecords(): Promise<RecordPage> {
    return { found: [...this.#tables.records.values()].map(toName), next: undefined };
  }

  protected async recordsOf(): Promise<RecordPage> {
    return this.dueRecords();
  }

  protected async oldSnapshots(options: PruneSnapshotsOptions): Promise<RecordName[]> {
    return this.#tables.prunableSnapshots(options).map(toName);
  }

  protected async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    const record = this.#tables.records.get(ref);
    return record?.snapshot && toRecordSnapshot(record);
  }

  /** Returns all snapshots in one page. With several pages, each page would sort all records again. */
  protected async doSnapshots(after: string | undefined): Promise<RecordSnapshot[]> {
    return [...this.#tables.records.values()]
      .filter(({ ref, snapshot }) => snapshot !== undefined && (after === undefined || ref! > after))
      .sort((a, b) => (a.ref! < b.ref! ? -1 : 1))
      .map(toRecordSnapshot);
  }

  protected async doLedgerOf(ref: string): Promise<string | undefined> {
    return this.#tables.records.get(ref)?.ledger;
  }

  protected async doLedgers(after: string | undefined): Promise<RecordLedger[]> {
    return [...this.#tables.records.values()]
      .flatMap(({ ref, ledger }) => (ref === null || ledger === undefined ? [] : [{ ref, ledger }]))
      .filter(({ ref }) => after === undefined || ref > after)
      .sort((a, b) => (a.ref < b.ref ? -1 : 1));
  }

  protected async doGetMeta(key: string) {
    const meta = this.#meta.get(key);
    return meta && { value: meta.value, age: Math.max(0, this.#tables.now() - meta.setAt) };
  }

  protected async doSetMeta(key: string, value: string | undefined, expected: string | undefined) {
    if (this.#meta.get(key)?.value !== expected) return false;
    if (value === undefined) this.#meta.delete(key);
    else this.#meta.set(key, { value, setAt: this.#tables.now() });
    return true;
  }

  protected async doPrune(options: PruneOptions): Promise<number> {
    return prune(this.#tables, options);
  }

  protected async doClose(): Promise<void> {}
}
