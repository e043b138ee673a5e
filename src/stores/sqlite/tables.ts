import type { DatabaseSync } from "node:sqlite";
import type {
  ClaimedEvent,
  EventState,
  EventStore,
  NewEvent,
  Outcome,
  RecordStatus,
  StoredEvent,
} from "../event-store.ts";
import {
  type EventRow,
  type Id,
  type Lock,
  type StatusRow,
  toClaim,
  toId,
  toLock,
  toRecordStatus,
  toRef,
  toStoredEvent,
} from "./rows.ts";
import { prepareStatements, type Statements } from "./statements.ts";
import { runWrites } from "./user-writes.ts";

type Options<K extends "claim" | "prune" | "pruneRecords" | "list" | "replayParked"> = NonNullable<
  Parameters<EventStore[K]>[0]
>;
interface Place {
  readonly lock: Lock;
  readonly seq: number;
}

/**
 * The tables and what can be done with them, step by step. Nothing here waits, and nothing begins or ends a
 * transaction: whoever calls a method that writes has one open.
 */
export class Tables {
  readonly #db: DatabaseSync;
  readonly #run: Statements;
  #madeDue = false;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#run = prepareStatements(db);
  }

  /** Whether anything has become due since this was asked last. */
  takeMadeDue(): boolean {
    const madeDue = this.#madeDue;
    this.#madeDue = false;
    return madeDue;
  }

  add({
    eventId,
    ref,
    source,
    topic,
    timestamp,
    notification,
  }: NewEvent): "added" | "duplicate" | "conflict" {
    const id = toId(eventId);
    const lock = toLock(ref, id);
    const now = Date.now();
    const inserted = this.#run.insertEvent.run({ id, lock, now, source, topic, timestamp, notification });
    if (inserted.changes === 0) {
      const known = this.#run.lockOf.get({ id })?.lock as Lock;
      return toRef(known) === ref ? "duplicate" : "conflict";
    }
    this.#placeNow({ lock, seq: Number(inserted.lastInsertRowid) }, now);
    return "added";
  }

  /** Whether a claim would find anything. */
  isAnyReady(): boolean {
    const next = this.nextReady();
    return next !== undefined && next <= Date.now();
  }

  claim({ limit, leaseDuration, eventId, retriesFirst = false }: Options<"claim">): ClaimedEvent[] {
    const now = Date.now();
    // At least 1 ms, or the claim that leases it would find it due again.
    const leaseEnd = now + Math.max(1, Math.ceil(leaseDuration));
    const lease = (places: readonly Place[]) => places.map((place) => this.#lease(place, leaseEnd, now));
    if (eventId !== undefined)
      return lease(this.#places(this.#run.readyById.all({ id: toId(eventId), now })).slice(0, limit));
    const { readyPending, readyRetries } = this.#run;
    const [first, second] = retriesFirst ? [readyRetries, readyPending] : [readyPending, readyRetries];
    const claims = lease(this.#places(first.all({ now, limit })));
    // Only now: the records of the first ones are no longer ready.
    return claims.concat(lease(this.#places(second.all({ now, limit: limit - claims.length }))));
  }

  renew(claims: readonly ClaimedEvent[], leaseDuration: number): ClaimedEvent[] {
    const leaseEnd = Date.now() + Math.ceil(leaseDuration);
    return claims.filter((claim) => {
      const row = this.#held(claim);
      if (row === undefined) return false;
      this.#run.renewEvent.run({ seq: row.seq, leaseEnd });
      this.#run.renewLock.run({ lock: row.lock, leaseEnd });
      this.#run.refresh.run({ lock: row.lock });
      return true;
    });
  }

  /** @throws {@link WritesFailed} where the outcome's writes failed */
  settle(claim: ClaimedEvent, outcome: Outcome<DatabaseSync>): boolean {
    const row = this.#held(claim);
    if (row === undefined) return false;
    if (outcome.state === "done" && outcome.writes !== undefined && outcome.writes.length > 0) {
      runWrites(this.#db, outcome.writes);
    }
    const now = Date.now();
    this.#end(row, outcome, now);
    const waitEnd = outcome.state === "retrying" && !outcome.counted ? now + Math.ceil(outcome.in) : 0;
    this.#run.unlock.run({ lock: row.lock, waitEnd });
    if (this.#run.refresh.get({ lock: row.lock })?.waits === 1) this.#madeDue = true;
    else this.#run.dropLock.run({ lock: row.lock });
    return true;
  }

  prune({ state, reason, age, limit }: Options<"prune">): number {
    const until = Math.floor(Date.now() - age);
    const { pruneDone, pruneParked, pruneParkedFor } = this.#run;
    if (state === "parked" && reason !== undefined)
      return changes(pruneParkedFor.run({ until, limit, reason }));
    // What is done has no reason.
    if (reason !== undefined) return 0;
    return changes((state === "done" ? pruneDone : pruneParked).run({ until, limit }));
  }

  pruneRecords({ age, limit }: Options<"pruneRecords">): number {
    return changes(this.#run.pruneStatuses.run({ until: Math.floor(Date.now() - age), limit }));
  }

  replay(eventId: string): boolean {
    const row = this.#run.get.get({ id: toId(eventId) }) as EventRow | undefined;
    if (row === undefined || row.state === "processing") return false;
    this.#replay(row, Date.now());
    return true;
  }

  /** `limit` of what is parked, in the order of arrival, behind `after`; says how many it was and where to go on. */
  replayParked({ reason, before }: Options<"replayParked">, after: number, limit: number) {
    const rows = this.#run.parkedAfter.all({
      after,
      reason: reason ?? null,
      before: before?.getTime() ?? null,
      limit,
    });
    const now = Date.now();
    for (const row of rows as unknown as EventRow[]) this.#replay(row, now);
    return { replayed: rows.length, last: Number(rows.at(-1)?.seq ?? after) };
  }

  /** Epoch ms. */
  nextReady(): number | undefined {
    return toTime(this.#run.nextReady.get());
  }

  get(eventId: string): StoredEvent | undefined {
    const row = this.#run.get.get({ id: toId(eventId) });
    return row === undefined ? undefined : toStoredEvent(row as unknown as StoredRow);
  }

  list({ state, limit: asked, after }: Options<"list">): StoredEvent[] {
    // SQLite has no Infinity in LIMIT.
    const limit = Math.min(asked, Number.MAX_SAFE_INTEGER);
    // Behind an event that is gone nothing can be said to come: the list ends.
    const before = after === undefined ? Number.MAX_SAFE_INTEGER : this.#seqOf(toId(after));
    const { list, listDone, listOpen } = this.#run;
    const rows =
      state === undefined
        ? list.all({ before, limit })
        : state === "done"
          ? listDone.all({ before, limit })
          : listOpen.all({ before, limit, state });
    return (rows as unknown as StoredRow[]).map(toStoredEvent);
  }

  counts(): Record<EventState, number> {
    const rows = this.#run.counts.all().map(({ state, events }) => [state, events]);
    return Object.fromEntries(rows) as Record<EventState, number>;
  }

  /** Epoch ms at which it was received. */
  oldestWaiting(): number | undefined {
    return toTime(this.#run.oldestWaiting.get({ now: Date.now() }));
  }

  statusOf(ref: string): RecordStatus | undefined {
    const row = this.#run.statusOf.get({ ref });
    return row === undefined ? undefined : toRecordStatus(row as unknown as StatusRow);
  }

  statusesAfter(ref: string, limit: number): RecordStatus[] {
    return (this.#run.statusesAfter.all({ after: ref, limit }) as unknown as StatusRow[]).map(toRecordStatus);
  }

  #places(rows: unknown[]): Place[] {
    return rows as Place[];
  }

  #seqOf(id: Id): number {
    return Number(this.#run.seqOf.get({ id })?.seq ?? 0);
  }

  #lease({ lock, seq }: Place, leaseEnd: number, now: number): ClaimedEvent {
    const lease = crypto.randomUUID();
    const row = this.#run.claimEvent.get({ seq, leaseEnd }) as unknown as EventRow;
    this.#run.leaseLock.run({ lock, lease, seq, leaseEnd });
    this.#run.refresh.run({ lock });
    const status = typeof lock === "string" ? this.#run.statusOf.get({ ref: lock }) : undefined;
    return toClaim(row, status as StatusRow | undefined, lease, now);
  }

  /** The claim's event, as long as nobody else has taken its record. */
  #held(claim: ClaimedEvent): EventRow | undefined {
    return this.#run.held.get({ id: toId(claim.eventId), lease: claim.lease }) as EventRow | undefined;
  }

  #end(row: EventRow, outcome: Outcome<DatabaseSync>, now: number): void {
    const { seq, lock } = row;
    const { endEvent, retryEvent, releaseEvent, setStatus } = this.#run;
    switch (outcome.state) {
      case "done": {
        const { state, type, status } = outcome;
        endEvent.run({ seq, state, now, type, reason: null, error: null });
        if (status !== undefined && typeof lock === "string") setStatus.run({ ref: lock, status, now });
        return;
      }
      case "parked": {
        const { state, type = null, reason, error } = outcome;
        endEvent.run({ seq, state, now, type, reason, error });
        return;
      }
      case "retrying": {
        const { counted, type = null, reason, error } = outcome;
        const times = counted
          ? { dueAt: now + Math.ceil(outcome.in), attempts: row.attempts, outages: 0, firstOutageAt: null }
          : {
              dueAt: now,
              attempts: row.attempts - 1,
              outages: row.outages + 1,
              firstOutageAt: row.first_outage_at ?? now,
            };
        retryEvent.run({ seq, ...times, type, reason, error });
        return;
      }
      case "released":
        releaseEvent.run({ seq, state: row.attempts === 1 && row.outages === 0 ? "pending" : "retrying" });
        return;
    }
  }

  #replay({ seq, lock, state }: Pick<EventRow, "seq" | "lock" | "state">, now: number): void {
    if (state === "retrying") this.#run.replayRetrying.run({ seq, now });
    else if (state !== "pending") this.#run.replayEnded.run({ seq, now });
    this.#placeNow({ seq, lock }, now);
  }

  /** The event is in line, and its record waits no longer. */
  #placeNow({ lock, seq }: Place, now: number): void {
    this.#madeDue = true;
    if (this.#run.insertLock.run({ lock, now, seq }).changes > 0) return;
    this.#run.endWait.run({ lock });
    this.#run.refresh.run({ lock });
  }
}

type StoredRow = Parameters<typeof toStoredEvent>[0];

function changes(result: { readonly changes: number | bigint }): number {
  return Number(result.changes);
}

function toTime(row: Record<string, unknown> | undefined): number | undefined {
  const at = row?.at;
  return typeof at === "number" ? at : undefined;
}
