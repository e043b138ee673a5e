import { StayhookError } from "../../errors.ts";
import { isOwnRef } from "../own.ts";
import type {
  ClaimedEvent,
  EventState,
  EventStore,
  NewEvent,
  Outcome,
  RecordStatus,
  StoredEvent,
} from "../event-store.ts";
import { Subscribers } from "../subscribers.ts";
import { OrderedSet } from "./ordered-set.ts";
import { type EventRow, newEventRow, type RecordRow, toClaim, toStoredEvent } from "./rows.ts";
import { Schedule } from "./schedule.ts";

/** The events table, and what is done with it; `memoryStore` makes one. */
export class MemoryStore implements EventStore {
  readonly #max: number;
  readonly #events = new Map<string, EventRow>();
  /** In the order in which they came into that state. */
  readonly #byState: Record<EventState, OrderedSet<EventRow>> = {
    pending: new OrderedSet(),
    processing: new OrderedSet(),
    retrying: new OrderedSet(),
    done: new OrderedSet(),
    parked: new OrderedSet(),
  };
  readonly #schedule = new Schedule();
  readonly #subscribers = new Subscribers();
  #arrivals = 0;
  #leases = 0;
  #closed = false;

  constructor(max: number) {
    this.#max = max;
  }

  async add(event: NewEvent): Promise<"added" | "duplicate" | "conflict"> {
    this.#assertOpen();
    const known = this.#events.get(event.eventId);
    if (known !== undefined) return known.event.ref === event.ref ? "duplicate" : "conflict";
    this.#arrivals += 1;
    const row = newEventRow(event, this.#arrivals, Date.now());
    this.#events.set(row.event.eventId, row);
    this.#byState.pending.add(row);
    this.#schedule.placeNow(row);
    this.#subscribers.wake();
    return "added";
  }

  async claim(options: Parameters<EventStore["claim"]>[0]): Promise<ClaimedEvent[]> {
    this.#assertOpen();
    const { limit, leaseDuration, eventId, retriesFirst = false } = options;
    const now = Date.now();
    const claims: ClaimedEvent[] = [];
    while (claims.length < limit) {
      const row =
        eventId === undefined ? this.#schedule.next(now, retriesFirst) : this.#ifReady(eventId, now);
      if (row === undefined) break;
      claims.push(this.#lease(row, now, leaseDuration));
    }
    return claims;
  }

  async renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.#assertOpen();
    const leaseEnd = Date.now() + leaseDuration;
    return claims.filter((claim) => {
      const row = this.#held(claim);
      if (row === undefined) return false;
      row.leaseEnd = leaseEnd;
      this.#schedule.place(row);
      return true;
    });
  }

  async settle(claim: ClaimedEvent, outcome: Outcome): Promise<boolean> {
    this.#assertOpen();
    const row = this.#held(claim);
    if (row === undefined) return false;
    const record = row.record!;
    record.lease = undefined;
    this.#end(row, record, outcome, Date.now());
    if (this.#schedule.hasWaiting(record)) this.#subscribers.wake();
    return true;
  }

  async nextDue(): Promise<number | undefined> {
    this.#assertOpen();
    const at = this.#schedule.nextReady;
    return at === Number.POSITIVE_INFINITY ? undefined : Math.max(0, at - Date.now());
  }

  async prune({ state, reason, age, limit }: Parameters<EventStore["prune"]>[0]): Promise<number> {
    this.#assertOpen();
    const until = Date.now() - age;
    let pruned = 0;
    for (const row of this.#byState[state]) {
      if (pruned >= limit || row.endedAt > until) break;
      if (reason !== undefined && row.reason !== reason) continue;
      this.#forget(row);
      pruned += 1;
    }
    return pruned;
  }

  async pruneRecords({ age, limit }: Parameters<EventStore["pruneRecords"]>[0]): Promise<number> {
    this.#assertOpen();
    return this.#schedule.forgetStatuses(Date.now() - age, limit);
  }

  async list({ state, limit, after }: Parameters<EventStore["list"]>[0]): Promise<StoredEvent[]> {
    this.#assertOpen();
    // Behind an event that is gone nothing can be said to come: the list ends.
    const before = after === undefined ? Number.POSITIVE_INFINITY : (this.#events.get(after)?.arrival ?? 0);
    const rows = state === undefined ? this.#events.values() : this.#byState[state];
    return [...rows]
      .filter((row) => row.arrival < before)
      .sort((a, b) => b.arrival - a.arrival)
      .slice(0, limit)
      .map(toStoredEvent);
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    this.#assertOpen();
    const row = this.#events.get(eventId);
    return row && toStoredEvent(row);
  }

  async counts(): Promise<Record<EventState, number>> {
    this.#assertOpen();
    const { pending, processing, retrying, done, parked } = this.#byState;
    return {
      pending: pending.size,
      processing: processing.size,
      retrying: retrying.size,
      done: done.size,
      parked: parked.size,
    };
  }

  async oldestWaiting(): Promise<number | undefined> {
    this.#assertOpen();
    const now = Date.now();
    let oldest = Number.POSITIVE_INFINITY;
    for (const state of ["pending", "retrying", "processing"] as const) {
      for (const row of this.#byState[state]) {
        if (state === "processing" && row.leaseEnd > now) continue;
        oldest = Math.min(oldest, row.receivedAt);
      }
    }
    return oldest === Number.POSITIVE_INFINITY ? undefined : Math.max(0, now - oldest);
  }

  async replay(eventId: string): Promise<boolean> {
    this.#assertOpen();
    const row = this.#events.get(eventId);
    if (row === undefined || row.state === "processing") return false;
    this.#replay(row, Date.now());
    this.#subscribers.wake();
    return true;
  }

  async replayParked(options: Parameters<EventStore["replayParked"]>[0] = {}): Promise<number> {
    this.#assertOpen();
    const { reason, before } = options;
    const rows = [...this.#byState.parked].filter(
      (row) =>
        (reason === undefined || row.reason === reason) &&
        (before === undefined || row.receivedAt < before.getTime()),
    );
    const now = Date.now();
    for (const row of rows) this.#replay(row, now);
    if (rows.length > 0) this.#subscribers.wake();
    return rows.length;
  }

  async statusOf(ref: string): Promise<RecordStatus | undefined> {
    this.#assertOpen();
    const record = this.#schedule.record(ref);
    return record?.status === undefined ? undefined : toRecordStatus(record);
  }

  async *statuses({ after }: { readonly after?: string | undefined } = {}): AsyncGenerator<RecordStatus> {
    this.#assertOpen();
    const statuses = Array.from(this.#schedule.statuses(), toRecordStatus)
      .filter(({ ref }) => !isOwnRef(ref) && (after === undefined || ref > after))
      .sort((a, b) => (a.ref < b.ref ? -1 : 1));
    yield* statuses;
  }

  subscribe(wake: () => void): () => void {
    this.#assertOpen();
    return this.#subscribers.add(wake);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#subscribers.clear();
  }

  #assertOpen(): void {
    if (this.#closed) throw new StayhookError("The store is closed.");
  }

  #ifReady(eventId: string, now: number): EventRow | undefined {
    const row = this.#events.get(eventId);
    return row !== undefined && this.#schedule.isReady(row, now) ? row : undefined;
  }

  #lease(row: EventRow, now: number, leaseDuration: number): ClaimedEvent {
    const record = row.record!;
    this.#leases += 1;
    const token = String(this.#leases);
    record.lease = { token, row };
    row.attempts += 1;
    // At least 1 ms, or the claim that leases it would find it due again.
    row.leaseEnd = now + Math.max(1, leaseDuration);
    this.#enter(row, "processing");
    return toClaim(row, record, token, now);
  }

  /** The claim's row, as long as nobody else has taken its record. */
  #held(claim: ClaimedEvent): EventRow | undefined {
    const lease = this.#events.get(claim.eventId)?.record?.lease;
    return lease?.token === claim.lease && lease.row.event.eventId === claim.eventId ? lease.row : undefined;
  }

  #end(row: EventRow, record: RecordRow, outcome: Outcome, now: number): void {
    switch (outcome.state) {
      case "done":
        row.type = outcome.type;
        row.reason = null;
        if (outcome.status !== undefined) this.#schedule.handled(record, outcome.status, now);
        this.#finish(row, "done", now);
        break;
      case "parked":
        noteFailure(row, outcome);
        this.#finish(row, "parked", now);
        break;
      case "retrying":
        noteFailure(row, outcome);
        if (outcome.counted) {
          row.outages = 0;
          row.firstOutageAt = undefined;
          row.dueAt = now + outcome.in;
        } else {
          row.attempts -= 1;
          row.outages += 1;
          row.firstOutageAt ??= now;
          row.dueAt = now;
          record.waitEnd = now + outcome.in;
        }
        this.#enter(row, "retrying");
        break;
      case "released":
        row.attempts -= 1;
        this.#enter(row, row.attempts === 0 && row.outages === 0 ? "pending" : "retrying");
        break;
    }
  }

  #setState(row: EventRow, state: EventState): void {
    this.#byState[row.state].delete(row);
    row.state = state;
    this.#byState[state].add(row);
  }

  #enter(row: EventRow, state: "pending" | "retrying" | "processing"): void {
    this.#setState(row, state);
    this.#schedule.place(row);
  }

  #finish(row: EventRow, state: "done" | "parked", now: number): void {
    row.endedAt = now;
    this.#setState(row, state);
    this.#schedule.remove(row);
    const { done } = this.#byState;
    if (done.size > this.#max) this.#forget(done.first!);
  }

  /** Of a done or parked event. */
  #forget(row: EventRow): void {
    this.#events.delete(row.event.eventId);
    this.#byState[row.state].delete(row);
  }

  #replay(row: EventRow, now: number): void {
    if (row.state === "done" || row.state === "parked") {
      row.attempts = 0;
      row.outages = 0;
      row.firstOutageAt = undefined;
      row.reason = null;
      row.replayed = true;
      row.dueAt = now;
      this.#setState(row, "pending");
    } else if (row.state === "retrying") {
      row.dueAt = Math.min(row.dueAt, now);
    }
    this.#schedule.placeNow(row);
  }
}

function noteFailure(row: EventRow, outcome: Extract<Outcome, { readonly error: string }>): void {
  row.lastError = outcome.error;
  row.reason = outcome.reason;
  row.type = outcome.type ?? row.type;
}

function toRecordStatus({ ref, status, sequence, seenAt }: RecordRow): RecordStatus {
  return { ref: ref!, status: status!, sequence, seenAt: new Date(seenAt) };
}
