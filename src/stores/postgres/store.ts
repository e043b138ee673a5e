import type { ClientBase } from "pg";
import { StayhookError } from "../../errors.ts";
import { createSlots, type Slots } from "../../slots.ts";
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
import { Adds, type Answer, PATIENCE } from "./adds.ts";
import { type Connections, type Row, type Session, Undone } from "./connections.ts";
import { isLocked, lostConnection, mayTryAgain, storeError } from "./errors.ts";
import type { PostgresStore, TransactionStore } from "./index.ts";
import { toClaim, toRecordStatus, toStoredEvent } from "./rows.ts";
import { channelOf, migrate } from "./schema.ts";
import { type Statements, statements } from "./statements.ts";
import { toRecord, toText } from "./text.ts";
import { MOST_TIME, runWrites, WriteFailed, type Writes } from "./user-writes.ts";
import { Wake, type WakeOptions } from "./wake.ts";

/** What is read or replayed in one go. */
const PAGE = 200;
/** How often a transaction that met another one is tried. */
const TRIES = 4;
/** 300 years in ms: what is longer, an interval may not hold. */
const LONGEST = 1e13;
const MOST_ROWS = 2 ** 31 - 1;
/** How long a lease to be renewed waits for a transaction that holds its record, ms. */
const MOST_PATIENCE = 5000;
/** Leases whose end may or may not have been recorded, that are remembered. */
const MOST_UNSURE = 10_000;

export interface StoreOptions extends Omit<WakeOptions, "channel"> {
  readonly schema: string;
  /** Transactions with the user's writes at once: the rest of the connections is for what must not wait for them. */
  readonly writesAtOnce: number;
}

type Done = Extract<Outcome<ClientBase>, { readonly state: "done" }>;

export class PgStore implements PostgresStore {
  readonly transactional = true;
  readonly #schema: string;
  readonly #connections: Connections;
  readonly #run: Statements;
  readonly #adds: Adds;
  readonly #wake: Wake;
  readonly #writing: Slots;
  readonly #unsure = new Set<string>();
  #ready: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(connections: Connections, { schema, writesAtOnce, ...wake }: StoreOptions) {
    this.#schema = schema;
    this.#connections = connections;
    this.#run = statements(schema);
    this.#wake = new Wake(connections, { ...wake, channel: channelOf(schema) });
    this.#writing = createSlots(writesAtOnce);
    this.#adds = new Adds((events, patience) => this.#send(events, patience));
  }

  async migrate(): Promise<void> {
    await this.#call("the schema could not be made", async () => {});
  }

  async add(event: NewEvent): Promise<Answer> {
    // A copy, as the caller may change what he gave before it is sent.
    const given = { ...event };
    return this.#call("the event could not be recorded", () => this.#adds.add(given));
  }

  with(client: ClientBase): TransactionStore {
    return {
      add: async (event) => {
        const given = { ...event };
        return this.#call("the event could not be recorded", async () => {
          const values = addValues([given], PATIENCE.alone, true);
          const { rows } = await client.query<Row>({ text: this.#run.add, values });
          return rows[0]?.answer as Answer;
        });
      },
    };
  }

  async claim({ limit, leaseDuration, eventId, retriesFirst }: Parameters<EventStore["claim"]>[0]) {
    this.#assertOpen();
    if (limit <= 0) return [];
    const only = eventId === undefined ? null : toText(eventId);
    const values = [most(limit), ms(leaseDuration), retriesFirst === true, only];
    const rows = await this.#query("events could not be claimed", this.#run.claim, values);
    return rows.map(toClaim);
  }

  async renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.#assertOpen();
    if (claims.length === 0) return [];
    return this.#call("leases could not be renewed", async () => {
      const rows = await this.#renew(claims, leaseDuration, null);
      const held = new Set(rows.filter(({ locked }) => locked !== "true").map(at));
      const locked = rows.filter(({ locked }) => locked === "true").map(at);
      // What another transaction holds must not cost the others their leases.
      const patience = `${Math.round(Math.min(MOST_PATIENCE, Math.max(1, leaseDuration / 3)))}ms`;
      const alone = async (index: number) => {
        const renewed = await this.#renew([claims[index] as ClaimedEvent], leaseDuration, patience);
        if (renewed.length > 0) held.add(index);
      };
      for (const { reason } of failures(await Promise.allSettled(locked.map(alone))))
        if (!isLocked(reason)) throw reason;
      return claims.filter((_, index) => held.has(index));
    });
  }

  #renew(claims: readonly ClaimedEvent[], leaseDuration: number, patience: string | null): Promise<Row[]> {
    const leases = [
      claims.map(({ eventId }) => toText(eventId)),
      claims.map(toRecord),
      claims.map(({ lease }) => lease),
    ];
    return again(() => this.#connections.query(this.#run.renew, [...leases, ms(leaseDuration), patience]));
  }

  async settle(claim: ClaimedEvent, outcome: Outcome<ClientBase>): Promise<boolean> {
    return this.#call("the end of an event could not be recorded", async () => {
      try {
        const settled = await this.#settle(claim, outcome);
        this.#unsure.delete(claim.lease);
        return settled;
      } catch (error) {
        // The answer was lost, and with it whether it is done.
        if (!(error instanceof WriteFailed) && lostConnection(error)) this.#doubt(claim.lease);
        throw error;
      }
    });
  }

  async nextDue(): Promise<number | undefined> {
    const [row] = await this.#query(READING, this.#run.nextDue);
    return typeof row?.wait === "string" ? Math.max(0, Number(row.wait)) : undefined;
  }

  async prune({ state, reason, age, limit }: Parameters<EventStore["prune"]>[0]): Promise<number> {
    const values = [state, reason ?? null, ms(age), most(limit)];
    const [row] = await this.#query("old events could not be deleted", this.#run.prune, values);
    return Number(row?.gone);
  }

  async pruneRecords({ age, limit }: Parameters<EventStore["pruneRecords"]>[0]): Promise<number> {
    const values = [ms(age), most(limit)];
    const [row] = await this.#query("old statuses could not be deleted", this.#run.pruneRecords, values);
    return Number(row?.gone);
  }

  async list({ state, limit, after }: Parameters<EventStore["list"]>[0]): Promise<StoredEvent[]> {
    const values = [after === undefined ? null : toText(after), most(limit)];
    return (await this.#query(READING, this.#run.list(state), values)).map(toStoredEvent);
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    const [row] = await this.#query(READING, this.#run.get, [toText(eventId)]);
    return row && toStoredEvent(row);
  }

  async counts(): Promise<Record<EventState, number>> {
    const rows = await this.#query(READING, this.#run.counts);
    const found = Object.fromEntries(rows.map(({ state, events }) => [state, Number(events)]));
    return { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0, ...found };
  }

  async oldestWaiting(): Promise<number | undefined> {
    const [row] = await this.#query(READING, this.#run.oldestWaiting);
    return typeof row?.age === "string" ? Math.max(0, Number(row.age)) : undefined;
  }

  async replay(eventId: string): Promise<boolean> {
    const [row] = await this.#query(REPLAYING, this.#run.replay, [toText(eventId)]);
    if (row?.made_due === "true") this.#wake.madeDue();
    return row?.replayed === "true";
  }

  async replayParked({ reason, before }: Parameters<EventStore["replayParked"]>[0] = {}): Promise<number> {
    let total = 0;
    for (let after = "0"; ; ) {
      const values = [after, PAGE, reason ?? null, before?.getTime() ?? null];
      const [row] = await this.#query(REPLAYING, this.#run.replayParked, values);
      if (row?.made_due === "true") this.#wake.madeDue();
      total += Number(row?.replayed);
      if (Number(row?.found) < PAGE) return total;
      after = row?.last_seq as string;
    }
  }

  async statusOf(ref: string): Promise<RecordStatus | undefined> {
    const [row] = await this.#query(READING, this.#run.statusOf, [toText(ref)]);
    return row && toRecordStatus(row);
  }

  async *statuses({ after }: { readonly after?: string | undefined } = {}): AsyncGenerator<RecordStatus> {
    for (let from = toText(after ?? ""); ; ) {
      const page = await this.#query(READING, this.#run.statusesAfter, [from, PAGE]);
      yield* page.map(toRecordStatus).filter(({ ref }) => !isOwnRef(ref));
      if (page.length < PAGE) return;
      from = page.at(-1)?.record as string;
    }
  }

  subscribe(wake: () => void): () => void {
    this.#assertOpen();
    return this.#wake.subscribe(wake);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#wake.close();
    await this.#adds.idle();
    await this.#connections.close();
  }

  async #send(events: readonly NewEvent[], patience: string): Promise<Answer[]> {
    const rows = await again(() =>
      this.#connections.query(this.#run.add, addValues(events, patience, false)),
    );
    if (rows[0]?.made_due === "true") this.#wake.madeDue();
    return rows.map(({ answer }) => answer as Answer);
  }

  #settle(claim: ClaimedEvent, outcome: Outcome<ClientBase>): Promise<boolean> {
    if (outcome.state !== "done" || outcome.writes === undefined || outcome.writes.length === 0) {
      const values = settleValues(claim, outcome, this.#unsure.has(claim.lease));
      return again(async () => this.#settled(await this.#connections.query(this.#run.settle, values)));
    }
    const { writes } = outcome;
    return this.#writing.run(() =>
      again(() => this.#connections.use((session) => this.#settleWith(session, claim, outcome, writes))),
    );
  }

  /** The user's writes first, and the event's end last: who adds to its record waits for that alone. */
  async #settleWith(session: Session, claim: ClaimedEvent, outcome: Done, writes: Writes): Promise<boolean> {
    await session.query(BEGIN);
    try {
      if ((await this.#stateOf(session, claim)) === "held") {
        await runWrites(session, writes);
        // Never by what was recorded before: these writes would be there twice.
        const rows = await session.query(this.#run.settleAtLast, settleValues(claim, outcome, false));
        if (rows[0]?.settled === "true") {
          await session.query("COMMIT");
          return this.#settled(rows);
        }
      }
      await session.query("ROLLBACK");
      const state = this.#unsure.has(claim.lease) ? await this.#stateOf(session, claim) : "lost";
      return state === "settled";
    } catch (error) {
      throw await undo(session, error);
    }
  }

  async #stateOf(session: Session, { eventId, lease }: ClaimedEvent): Promise<string | null | undefined> {
    const [row] = await session.query(this.#run.stateOfLease, [toText(eventId), lease]);
    return row?.lease;
  }

  #settled([row]: readonly Row[]): boolean {
    if (row?.made_due === "true") this.#wake.madeDue();
    return row?.settled === "true";
  }

  #doubt(lease: string): void {
    this.#unsure.add(lease);
    if (this.#unsure.size <= MOST_UNSURE) return;
    for (const oldest of this.#unsure) {
      this.#unsure.delete(oldest);
      return;
    }
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new StayhookError("The store is closed.");
  }

  #query(failing: string, text: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.#call(failing, () => again(() => this.#connections.query(text, values)));
  }

  async #call<T>(failing: string, run: () => Promise<T>): Promise<T> {
    this.#assertOpen();
    try {
      this.#ready ??= this.#migrate();
      await this.#ready;
      this.#assertOpen();
      return await run();
    } catch (error) {
      throw error instanceof WriteFailed ? error.cause : storeError(failing, error);
    }
  }

  async #migrate(): Promise<void> {
    try {
      await this.#connections.use((session) => migrate(session, this.#schema));
    } catch (error) {
      // The next call tries again.
      this.#ready = undefined;
      throw error;
    }
  }
}

/**
 * A process that is frozen within it must not keep its locks for ever: the server then ends the session, and with it
 * the transaction.
 */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = ${MOST_TIME}`;
const READING = "events could not be read";
const REPLAYING = "events could not be replayed";

/** Where a transaction has met another one, PostgreSQL has undone it: it may be tried again at once. */
async function again<T>(run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run();
    } catch (error) {
      if (tries >= TRIES || !mayTryAgain(error instanceof WriteFailed ? error.cause : error)) throw error;
    }
  }
}

/** A connection that answers is cleaned up, so that it can be lent again. */
async function undo(session: Session, error: unknown): Promise<unknown> {
  if (!(error instanceof WriteFailed) && lostConnection(error)) return error;
  try {
    await session.query("ROLLBACK");
    return new Undone("undone", { cause: error });
  } catch {
    return error;
  }
}

function at({ place }: Row): number {
  return Number(place) - 1;
}

function failures(results: readonly PromiseSettledResult<unknown>[]): PromiseRejectedResult[] {
  return results.filter((result) => result.status === "rejected");
}

function addValues(events: readonly NewEvent[], patience: string, notify: boolean): unknown[] {
  const optional = (text: string | null) => (text === null ? null : toText(text));
  return [
    events.map(({ eventId }) => toText(eventId)),
    events.map(toRecord),
    events.map(({ source }) => source),
    events.map(({ topic }) => optional(topic)),
    events.map(({ timestamp }) => toText(timestamp)),
    events.map(({ notification }) => optional(notification)),
    patience,
    notify,
  ];
}

function settleValues(claim: ClaimedEvent, outcome: Outcome<ClientBase>, unsure: boolean): unknown[] {
  const { type, status, in: wait, counted, reason, error } = { ...NOTHING, ...outcome };
  const event = [toText(claim.eventId), toRecord(claim), claim.lease];
  const handled = claim.ref === null || status === undefined ? null : toText(status);
  const failure = [ms(wait), counted, reason, error === null ? null : toText(error)];
  return [...event, outcome.state, type === undefined ? null : toText(type), handled, ...failure, unsure];
}

/** What an outcome may leave out. */
const NOTHING: {
  readonly type: string | undefined;
  readonly status: string | undefined;
  readonly in: number;
  readonly counted: boolean;
  readonly reason: string | null;
  readonly error: string | null;
} = { type: undefined, status: undefined, in: 0, counted: true, reason: null, error: null };

function ms(time: number): number {
  return Math.min(Math.max(0, time), LONGEST);
}

function most(limit: number): number {
  return Math.min(Math.max(0, Math.floor(limit)), MOST_ROWS);
}
