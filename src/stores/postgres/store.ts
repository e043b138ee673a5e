import { randomUUID } from "node:crypto";
import type { ClientBase } from "pg";
import { createSlots, type Slots } from "../../slots.ts";
import { BaseStore, type Change, type Slice, type Sliced } from "../base-store.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  EventState,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { clampWait } from "../limits.ts";
import { type Addition, Adds, type Answer, PATIENCE } from "./adds.ts";
import { type Connections, type Row, type Session, Undone } from "./connections.ts";
import { isLocked, isReadOnly, lostConnection, mayTryAgain, sqlState, storeError } from "./errors.ts";
import type { PostgresStore, TransactionStore } from "./index.ts";
import { Lost } from "./lost.ts";
import { NEWEST_RECEIVED } from "./maintenance.ts";
import { Notifier, type NotifierOptions } from "./notifier.ts";
import {
  fromText,
  optional,
  toClaim,
  toDate,
  toRecord,
  toRecordSnapshot,
  toSnapshotText,
  toStoredEvent,
  toText,
} from "./rows.ts";
import { channelOf, migrate } from "./schema.ts";
import { type Statements, statements } from "./statements.ts";
import { MOST_TIME, runWrites, WriteFailed, type Writes } from "./user-writes.ts";

/** How often a transaction that met another one is tried. */
const TRIES = 4;
/** 300 years in ms: an interval may not hold more. */
const LONGEST = 1e13;
const MOST_ROWS = 2 ** 31 - 1;
/** How long the renewal of a lease waits for a transaction that holds its record, ms. */
const MOST_PATIENCE = 5000;
/** A claim looks below the heads that this process knows of after this time, ms. */
const THOROUGH = 250;
/** So far below the head of the last claim the next one begins. */
const MARGIN = 256;

export interface StoreOptions extends Omit<NotifierOptions, "channel"> {
  readonly schema: string;
  /** Transactions with the user's writes at once: the other connections are for calls that must not wait for them. */
  readonly writesAtOnce: number;
}

type Done = Extract<Outcome<ClientBase>, { readonly state: "done" }>;

export class PgStore extends BaseStore<ClientBase> implements PostgresStore {
  readonly transactional = true;
  readonly #schema: string;
  readonly #connections: Connections;
  readonly #run: Statements;
  readonly #adds: Adds;
  readonly #notifier: Notifier;
  readonly #writing: Slots;
  readonly #lost = new Lost();
  #ready: Promise<void> | undefined;
  /** No pending event below this arrival can be claimed, as far as this process knows. */
  #since = 0;
  #thoroughAt = Number.NEGATIVE_INFINITY;

  constructor(connections: Connections, { schema, writesAtOnce, ...notifier }: StoreOptions) {
    super();
    this.#schema = schema;
    this.#connections = connections;
    this.#run = statements(schema);
    this.#notifier = new Notifier(connections, this.subscribers, { ...notifier, channel: channelOf(schema) });
    this.#writing = createSlots(writesAtOnce);
    this.#adds = new Adds((jobs, patience) => this.#send(jobs, patience));
  }

  async migrate(): Promise<void> {
    await this.#call("the schema could not be made", async () => {});
  }

  with(client: ClientBase): TransactionStore {
    return {
      add: async (event, options) => {
        const dueIn = options?.dueIn === undefined ? undefined : clampWait(options.dueIn);
        const values = addValues([{ event: { ...event }, dueIn }], PATIENCE.alone, true);
        return this.#call(ADDING, async () => {
          const { rows } = await client.query<Row>({ text: this.#run.add, values });
          return rows[0]?.answer as Answer;
        });
      },
    };
  }

  override subscribe(wake: () => void): () => void {
    this.assertOpen();
    const isFirst = this.subscribers.isEmpty;
    const remove = this.subscribers.add(wake);
    if (isFirst) this.#notifier.start();
    return () => {
      if (remove() && this.subscribers.isEmpty) this.#notifier.stop();
    };
  }

  protected async doAdd(event: NewEvent, dueIn: number | undefined): Promise<Answer> {
    // A copy, as the caller may change the event before it is sent.
    const given = { ...event };
    return this.#call(ADDING, () => this.#adds.add(given, dueIn));
  }

  protected async doClaim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    const { limit, leaseDuration, worker, eventId, order = "oldest" } = options;
    const token = randomUUID();
    const values = [
      token,
      most(limit),
      ms(leaseDuration),
      order,
      optional(eventId),
      worker === undefined ? null : JSON.stringify(worker),
    ];
    const run = (since: number): Promise<Row[]> =>
      this.#call(CLAIMING, async () => {
        await this.#giveBack();
        return again(() =>
          this.#connections.use(async (session) => {
            try {
              return await session.query(this.#run.claim, [...values, since]);
            } catch (error) {
              if (sqlState(error) === undefined) this.#lost.claim(token, leaseDuration);
              throw error;
            }
          }),
        );
      });
    const since = this.#sinceNow();
    const rows = await run(since);
    if (order !== "oldest" || eventId !== undefined) return rows.map(toClaim);
    if (rows.length === 0 && since > 0) {
      this.#since = 0;
      return (await run(0)).map(toClaim);
    }
    if (rows.length > 0) this.#since = Math.min(...rows.map(({ seq }) => Number(seq))) - MARGIN;
    return rows.map(toClaim);
  }

  protected doRenew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    return this.#call("leases could not be renewed", async () => {
      const rows = await this.#renew(claims, leaseDuration, null);
      const held = new Set(rows.filter(({ locked }) => locked !== "true").map(at));
      const locked = rows.filter(({ locked }) => locked === "true").map(at);
      // A record that another transaction holds must not cost the others their leases.
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

  protected doSettle(claim: ClaimedEvent, outcome: Outcome<ClientBase>): Promise<boolean> {
    return this.#call("the end of an event could not be recorded", async () => {
      try {
        const settled = await this.#settle(claim, outcome);
        this.#lost.settled(claim.lease);
        return settled;
      } catch (error) {
        if (!(error instanceof WriteFailed) && lostConnection(error)) this.#lost.settling(claim.lease);
        throw error;
      }
    });
  }

  protected async doNextDue(): Promise<number | undefined> {
    const [row] = await this.#query(READING, this.#run.nextDue, [this.#since]);
    return typeof row?.wait === "string" ? Math.max(0, Number(row.wait)) : undefined;
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const [row] = await this.#query(READING, this.#run.get, [toText(eventId)]);
    return row && toStoredEvent(row);
  }

  protected async doList(filter: EventFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const values = [...filterValues(filter), before ?? null, most(limit)];
    const rows = await this.#query(READING, this.#run.list, values);
    return { found: rows.filter(({ id }) => id !== null).map(toStoredEvent), next: number(rows[0]?.resume) };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    const [row] = await this.#query(READING, this.#run.arrivalOf, [toText(eventId)]);
    return number(row?.seq);
  }

  protected async doChange(
    change: Change,
    filter: EventFilter,
    { before, limit }: Slice,
  ): Promise<Sliced<number>> {
    const values = [change, ...filterValues(filter), before ?? null, most(limit)];
    const [row] = await this.#query("events could not be changed", this.#run.change, values);
    this.#madeDue(row);
    return { found: Number(row?.changed), next: number(row?.resume) };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const rows = await this.#query(READING, this.#run.counts);
    const found = Object.fromEntries(rows.map(({ state, events }) => [state, Number(events)]));
    return { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0, ...found };
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    const [row] = await this.#query(READING, this.#run.oldestWaiting);
    return typeof row?.age === "string" ? Math.max(0, Number(row.age)) : undefined;
  }

  protected async doNewestReceived(): Promise<Date | undefined> {
    const [row] = await this.#query(READING, this.#run.newestReceived, [NEWEST_RECEIVED]);
    return toDate(row?.at) ?? undefined;
  }

  protected async doErase(ref: string): Promise<number | undefined> {
    const [row] = await this.#query("a record could not be erased", this.#run.erase, [toText(ref)]);
    return number(row?.gone);
  }

  protected async doRecordOf(ref: string): Promise<RecordSnapshot | undefined> {
    const [row] = await this.#query(READING, this.#run.recordOf, [toText(ref)]);
    return row && toRecordSnapshot(row);
  }

  protected async doRecords(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    const rows = await this.#query(READING, this.#run.records, [toText(after ?? ""), limit]);
    return rows.map(toRecordSnapshot);
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const values = [toText(ref), toSnapshotText(snapshot)];
    const [row] = await this.#query("a record could not be kept", this.#run.learn, values);
    return row?.learned === "true";
  }

  protected async doGetMeta(
    key: string,
  ): Promise<{ readonly value: string; readonly age: number } | undefined> {
    const [row] = await this.#query("a value could not be read", this.#run.getMeta, [toText(key)]);
    return row && { value: fromText(row.value as string), age: Number(row.age) };
  }

  protected async doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    const values = [toText(key), optional(value), optional(expected)];
    const [row] = await this.#query("a value could not be kept", this.#run.setMeta, values);
    return row?.done === "true";
  }

  protected async doPrune({ state, reason, age, limit }: PruneOptions): Promise<number> {
    const values = [state, reason ?? null, ms(age), most(limit)];
    const [row] = await this.#query("old events could not be deleted", this.#run.prune, values);
    return Number(row?.gone);
  }

  protected async doPruneRecords({ age, limit }: PruneRecordsOptions): Promise<number> {
    const [row] = await this.#query("old records could not be deleted", this.#run.pruneRecords, [
      ms(age),
      most(limit),
    ]);
    return Number(row?.gone);
  }

  protected async doClose(): Promise<void> {
    this.subscribers.clear();
    this.#notifier.stop();
    await this.#adds.idle();
    await this.#connections.close();
  }

  /** Where claims begin. Dead entries of the index, which a long transaction of anybody's keeps, are below. */
  #sinceNow(): number {
    const now = performance.now();
    if (now - this.#thoroughAt >= THOROUGH || now < this.#thoroughAt) {
      this.#thoroughAt = now;
      this.#since = 0;
    }
    return Math.max(0, this.#since);
  }

  async #send(jobs: readonly Addition[], patience: string): Promise<Answer[]> {
    const rows = await again(() => this.#connections.query(this.#run.add, addValues(jobs, patience, false)));
    this.#madeDue(rows[0]);
    return rows.map(({ answer }) => answer as Answer);
  }

  #settle(claim: ClaimedEvent, outcome: Outcome<ClientBase>): Promise<boolean> {
    if (outcome.state !== "done" || outcome.writes === undefined || outcome.writes.length === 0) {
      const values = settleValues(claim, outcome, this.#lost.isUnsure(claim.lease));
      return again(async () => this.#settled(await this.#connections.query(this.#run.settle, values)));
    }
    const { writes } = outcome;
    return this.#writing.run(() =>
      again(() => this.#connections.use((session) => this.#settleWith(session, claim, outcome, writes))),
    );
  }

  /** The user's writes first, and the event's end last: an add to its record waits for the end alone. */
  async #settleWith(session: Session, claim: ClaimedEvent, outcome: Done, writes: Writes): Promise<boolean> {
    await session.query(BEGIN);
    try {
      if ((await this.#stateOf(session, claim)) === "held") {
        await runWrites(session, writes);
        // Not if it was recorded before: these writes would be there twice.
        const rows = await session.query(this.#run.settleAtLast, settleValues(claim, outcome, false));
        if (rows[0]?.settled === "true") {
          await session.query("COMMIT");
          return this.#settled(rows);
        }
      }
      await session.query("ROLLBACK");
      const state = this.#lost.isUnsure(claim.lease) ? await this.#stateOf(session, claim) : "lost";
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
    this.#madeDue(row);
    return row?.settled === "true";
  }

  #madeDue(row: Row | undefined): void {
    if (row?.made_due === "true") this.#notifier.madeDue();
  }

  #query(doing: string, text: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.#call(doing, async () => {
      await this.#giveBack();
      return again(() => this.#connections.query(text, values));
    });
  }

  async #call<T>(doing: string, run: () => Promise<T>): Promise<T> {
    this.assertOpen();
    try {
      this.#ready ??= this.#migrate();
      await this.#ready;
      this.assertOpen();
      return await run();
    } catch (error) {
      throw error instanceof WriteFailed ? error.cause : storeError(doing, error);
    }
  }

  /** Releases the events of claims whose answers were lost: nobody works on them, and the attempt must not count. */
  async #giveBack(): Promise<void> {
    const tokens = this.#lost.claims();
    if (tokens.length === 0) return;
    // A failure is no reason to fail the caller: the next call tries again.
    const rows = await this.#connections.query(this.#run.giveBack, [tokens]).catch(() => []);
    this.#lost.released(rows.map(({ token }) => token as string));
    if (rows.length > 0) this.#notifier.madeDue();
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

/** The server ends a session, and with it the transaction and its locks, when the process is frozen within it. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = ${MOST_TIME}`;
const ADDING = "the event could not be recorded";
const CLAIMING = "events could not be claimed";
const READING = "events could not be read";

/** PostgreSQL has undone a transaction that met another one. On a server that only reads, nothing was done either. */
async function again<T>(run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run();
    } catch (error) {
      const repeatable = mayTryAgain(error instanceof WriteFailed ? error.cause : error);
      if (tries >= TRIES || !(repeatable || (isReadOnly(error) && tries === 1))) throw error;
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

function number(text: string | null | undefined): number | undefined {
  return text === null || text === undefined ? undefined : Number(text);
}

function failures(results: readonly PromiseSettledResult<unknown>[]): PromiseRejectedResult[] {
  return results.filter((result) => result.status === "rejected");
}

function addValues(jobs: readonly Addition[], patience: string, notify: boolean): unknown[] {
  const events = jobs.map(({ event }) => event);
  return [
    events.map(({ eventId }) => toText(eventId)),
    events.map(toRecord),
    events.map(({ source }) => source),
    events.map(({ topic }) => optional(topic)),
    events.map(({ timestamp }) => toText(timestamp)),
    events.map(({ notification }) => optional(notification)),
    events.map(({ traceparent }) => optional(traceparent)),
    jobs.map(({ dueIn }) => dueIn ?? null),
    patience,
    notify,
  ];
}

function filterValues(filter: EventFilter): unknown[] {
  const { eventId, ref, state, type, reason, source, receivedAfter, receivedBefore } = filter;
  const texts = [
    optional(eventId),
    optional(ref),
    state ?? null,
    optional(type),
    reason ?? null,
    source ?? null,
  ];
  return [...texts, receivedAfter?.getTime() ?? null, receivedBefore?.getTime() ?? null];
}

function settleValues(claim: ClaimedEvent, outcome: Outcome<ClientBase>, unsure: boolean): unknown[] {
  const { type, reason, entry, in: wait, counted, record } = { ...NOTHING, ...outcome };
  const kept = claim.ref === null ? undefined : record;
  const text = entry && JSON.stringify({ ...entry, outcome: outcome.state });
  return [
    ...[toText(claim.eventId), toRecord(claim), claim.lease, outcome.state, optional(type)],
    ...[kept ? toSnapshotText(kept.snapshot) : null, kept?.changed ?? false],
    ...[wait, counted, outcome.state === "done" ? null : (reason ?? null), text ?? null, unsure],
  ];
}

/** The values of fields that an outcome may leave out. */
const NOTHING: {
  readonly type?: string | undefined;
  readonly reason?: string | undefined;
  readonly entry?: Extract<Outcome, { readonly entry: unknown }>["entry"] | undefined;
  readonly record?: Done["record"];
  readonly in: number;
  readonly counted: boolean;
} = { in: 0, counted: true };

function ms(time: number): number {
  return Math.min(Math.max(0, time), LONGEST);
}

function most(limit: number): number {
  return Math.min(Math.max(0, Math.floor(limit)), MOST_ROWS);
}
