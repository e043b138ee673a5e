import type {
  ClaimedEvent,
  EventState,
  EventStore,
  FailureReason,
  NewEvent,
  Outcome,
  RecordStatus,
  StoredEvent,
} from "../../src/stores/event-store.ts";

interface Row {
  event: NewEvent;
  arrival: number;
  receivedAt: number;
  state: EventState;
  attempts: number;
  outages: number;
  firstOutageAt: number | null;
  replayed: boolean;
  dueAt: number;
  lease: string | null;
  leaseEnd: number;
  endedAt: number;
  endedAs: number;
  type: string | null;
  lastError: string | null;
  reason: FailureReason | null;
}

type ClaimOptions = Parameters<EventStore["claim"]>[0];

/** The rules of a store, written down as plainly as can be: lists, and a look at all of them each time. */
export class ModelStore {
  rows: Row[] = [];
  statuses = new Map<string, { status: string; sequence: number; seenAt: number }>();
  /** Until when a record waits. */
  waits = new Map<string, number>();
  counter = 0;
  /** The oldest done events beyond so many are forgotten. */
  readonly max: number;
  /** What goes first of what ended in the same millisecond. */
  readonly sameTime: "first ended" | "first added";
  readonly now: () => number;

  constructor(max: number, sameTime: "first ended" | "first added", now: () => number) {
    this.max = max;
    this.sameTime = sameTime;
    this.now = now;
  }

  add(event: NewEvent): "added" | "duplicate" | "conflict" {
    const known = this.find(event.eventId);
    if (known) return known.event.ref === event.ref ? "duplicate" : "conflict";
    this.counter += 1;
    const now = this.now();
    this.rows.push({
      event,
      arrival: this.counter,
      receivedAt: now,
      state: "pending",
      attempts: 0,
      outages: 0,
      firstOutageAt: null,
      replayed: false,
      dueAt: now,
      lease: null,
      leaseEnd: 0,
      endedAt: 0,
      endedAs: 0,
      type: null,
      lastError: null,
      reason: null,
    });
    this.waits.delete(lockOf(event));
    return "added";
  }

  /** Claims, each with the model's own name for its lease. */
  claim({ limit, leaseDuration, eventId, retriesFirst }: ClaimOptions): ClaimedEvent[] {
    const claims: ClaimedEvent[] = [];
    while (claims.length < limit) {
      const row = eventId === undefined ? this.next(retriesFirst ?? false) : this.find(eventId);
      if (row === undefined || !this.isReady(row)) break;
      this.counter += 1;
      for (const other of this.rows) if (lockOf(other.event) === lockOf(row.event)) other.lease = null;
      const { status, sequence = 0 } = this.statuses.get(row.event.ref ?? "") ?? {};
      row.lease = String(this.counter);
      row.leaseEnd = this.now() + leaseDuration;
      row.state = "processing";
      row.attempts += 1;
      claims.push({
        ...row.event,
        receivedAt: row.receivedAt,
        attempts: row.attempts,
        outages: row.outages,
        outageFor: row.firstOutageAt === null ? 0 : this.now() - row.firstOutageAt,
        replayed: row.replayed,
        previousStatus: status,
        sequence,
        lease: row.lease,
      });
    }
    return claims;
  }

  renew(lease: string, leaseDuration: number): boolean {
    const row = this.rows.find((each) => each.lease === lease);
    if (row) row.leaseEnd = this.now() + leaseDuration;
    return row !== undefined;
  }

  settle(lease: string, outcome: Outcome<unknown>): boolean {
    const row = this.rows.find((each) => each.lease === lease);
    if (row === undefined) return false;
    const now = this.now();
    row.lease = null;
    if (outcome.state === "done" || outcome.state === "parked") {
      this.counter += 1;
      row.endedAt = now;
      row.endedAs = this.counter;
      row.state = outcome.state;
    }
    if (outcome.state === "parked" || outcome.state === "retrying") {
      row.lastError = outcome.error;
      row.reason = outcome.reason;
      if (outcome.type !== undefined) row.type = outcome.type;
    }
    if (outcome.state === "done") {
      row.type = outcome.type;
      row.reason = null;
      const { ref } = row.event;
      if (ref !== null && outcome.status !== undefined) {
        const last = this.statuses.get(ref);
        const sequence = (last?.sequence ?? 0) + (last?.status === outcome.status ? 0 : 1);
        this.statuses.set(ref, { status: outcome.status, sequence, seenAt: now });
      }
      const done = this.rows.filter(({ state }) => state === "done").sort((a, b) => this.compareEnds(a, b));
      if (done.length > this.max) this.rows.splice(this.rows.indexOf(done[0]!), 1);
    }
    if (outcome.state === "retrying") {
      row.state = "retrying";
      row.dueAt = now;
      if (outcome.counted) {
        row.dueAt += outcome.in;
        row.outages = 0;
        row.firstOutageAt = null;
      } else {
        row.attempts -= 1;
        row.outages += 1;
        row.firstOutageAt ??= now;
        this.waits.set(lockOf(row.event), now + outcome.in);
      }
    }
    if (outcome.state === "released") {
      row.attempts -= 1;
      row.state = row.attempts + row.outages > 0 ? "retrying" : "pending";
    }
    return true;
  }

  nextDue(): number | undefined {
    const waiting = this.rows.filter(isWaiting).map((row) => this.readyAt(row));
    return waiting.length === 0 ? undefined : Math.max(0, Math.min(...waiting) - this.now());
  }

  prune(state: "done" | "parked", reason: FailureReason | undefined, age: number, limit: number): number {
    const old = this.rows
      .filter((row) => row.state === state && row.endedAt <= this.now() - age)
      .filter((row) => reason === undefined || row.reason === reason)
      .sort((a, b) => this.compareEnds(a, b))
      .slice(0, limit);
    this.rows = this.rows.filter((row) => !old.includes(row));
    return old.length;
  }

  /** Which of them go where there are more than `limit` is left open: so there is none here. */
  pruneRecords(age: number): number {
    const waiting = new Set(this.rows.filter(isWaiting).map(({ event }) => event.ref));
    const old = [...this.statuses].filter(
      ([ref, { seenAt }]) => seenAt <= this.now() - age && !waiting.has(ref),
    );
    for (const [ref] of old) this.statuses.delete(ref);
    return old.length;
  }

  replay(eventId: string): boolean {
    const row = this.find(eventId);
    if (row === undefined || row.state === "processing") return false;
    this.waits.delete(lockOf(row.event));
    if (row.state === "retrying") row.dueAt = Math.min(row.dueAt, this.now());
    if (row.state !== "done" && row.state !== "parked") return true;
    Object.assign(row, { state: "pending", attempts: 0, outages: 0, firstOutageAt: null });
    Object.assign(row, { replayed: true, reason: null, dueAt: this.now() });
    return true;
  }

  replayParked(reason: FailureReason | undefined, before: Date | undefined): number {
    const rows = this.rows.filter(
      (row) =>
        row.state === "parked" &&
        (reason === undefined || row.reason === reason) &&
        (before === undefined || row.receivedAt < before.getTime()),
    );
    for (const row of rows) this.replay(row.event.eventId);
    return rows.length;
  }

  list(): StoredEvent[] {
    return this.rows.toReversed().map((row) => ({
      ...row.event,
      state: row.state,
      attempts: row.attempts,
      receivedAt: new Date(row.receivedAt),
      dueAt: this.shownDueAt(row),
      doneAt: row.state === "done" ? new Date(row.endedAt) : null,
      type: row.type,
      lastError: row.lastError,
      reason: row.reason,
    }));
  }

  oldestWaiting(): number | undefined {
    const ages = this.rows
      .filter((row) => isWaiting(row) && !(row.state === "processing" && row.leaseEnd > this.now()))
      .map((row) => this.now() - row.receivedAt);
    return ages.length === 0 ? undefined : Math.max(...ages);
  }

  allStatuses(): RecordStatus[] {
    return [...this.statuses]
      .map(([ref, { seenAt, ...rest }]) => ({ ref, ...rest, seenAt: new Date(seenAt) }))
      .sort((a, b) => (a.ref < b.ref ? -1 : 1));
  }

  private find(eventId: string): Row | undefined {
    return this.rows.find(({ event }) => event.eventId === eventId);
  }

  private compareEnds(a: Row, b: Row): number {
    const ties = this.sameTime === "first ended" ? a.endedAs - b.endedAs : a.arrival - b.arrival;
    return a.endedAt - b.endedAt || ties;
  }

  private isReady(row: Row): boolean {
    return isWaiting(row) && this.readyAt(row) <= this.now();
  }

  private readyAt(row: Row): number {
    return Math.max(ownDueAt(row), this.freeFrom(row));
  }

  private freeFrom({ event }: Row): number {
    const leased = this.rows.find((other) => other.lease !== null && lockOf(other.event) === lockOf(event));
    return Math.max(this.waits.get(lockOf(event)) ?? 0, leased?.leaseEnd ?? 0);
  }

  /** Each record's first of a kind by its own time, and of these the one that is ready first. */
  private next(retriesFirst: boolean): Row | undefined {
    const ready = this.rows.filter((row) => this.isReady(row));
    const pending = ready.filter(({ state }) => state === "pending");
    const retries = ready.filter(({ state }) => state !== "pending");
    for (const kind of retriesFirst ? [retries, pending] : [pending, retries]) {
      const firsts = new Map<string, Row>();
      for (const row of kind.sort((a, b) => ownDueAt(a) - ownDueAt(b) || a.arrival - b.arrival)) {
        if (!firsts.has(lockOf(row.event))) firsts.set(lockOf(row.event), row);
      }
      const ordered = [...firsts.values()].sort(
        (a, b) => this.readyAt(a) - this.readyAt(b) || a.arrival - b.arrival,
      );
      if (ordered.length > 0) return ordered[0];
    }
    return undefined;
  }

  private shownDueAt(row: Row): Date | null {
    if (row.state === "processing") return new Date(row.leaseEnd);
    return isWaiting(row) ? new Date(Math.max(row.dueAt, this.waits.get(lockOf(row.event)) ?? 0)) : null;
  }
}

function isWaiting({ state }: Row): boolean {
  return state === "pending" || state === "retrying" || state === "processing";
}

function ownDueAt(row: Row): number {
  return row.state === "processing" ? row.leaseEnd : row.dueAt;
}

function lockOf({ ref, eventId }: NewEvent): string {
  return ref ?? `the event ${eventId}`;
}
