import { randomUUID } from "node:crypto";
import type { ClientBase } from "pg";
import { createSlots, type Slots } from "../../async.ts";
import { type AddAnswer, BaseStore, clampWait, type Slice, type Sliced } from "../base-store.ts";
import { type Change, changedFrom, type EventState } from "../event-states.ts";
import type {
  AddOptions,
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  EventStore,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { WriteFailed } from "../server-pool.ts";
import {
  again,
  Commands,
  type CommandsOptions,
  Groups,
  PATIENCE,
  settleWithWrites,
} from "./postgres-commands.ts";
import { type Connections, LOCKED, lostConnection, NOTIFY_FULL, sqlState } from "./postgres-connections.ts";
import { Notifier, type NotifierOptions } from "./postgres-notifier.ts";
import {
  type Addition,
  addValues,
  channelOf,
  type Ending,
  filterValues,
  fromText,
  NEWEST_RECEIVED,
  optional,
  type Row,
  type Statements,
  settleValues,
  statements,
  toAddition,
  toAnswers,
  toClaim,
  toDate,
  toEnding,
  toRecord,
  toRecordSnapshot,
  toSnapshotText,
  toStoredEvent,
  toText,
} from "./postgres-statements.ts";

/** The longest duration that the store sends, ms: about 300 years. PostgreSQL rejects much longer intervals. */
const LONGEST = 1e13;
const MOST_ROWS = 2 ** 31 - 1;
/** The longest wait for a locked record when the store renews a lease, ms. */
const MOST_PATIENCE = 5000;
/** The time between two claims that search the whole index of pending events, ms. Other claims begin at `#since`. */
const THOROUGH = 250;
/** The distance between `#since` and the oldest event of the last claim, in arrival numbers. */
const MARGIN = 256;

export interface StoreOptions extends Omit<NotifierOptions, "channel"> {
  readonly schema: string;
  readonly migrate: CommandsOptions["migrate"];
  /** How many `event.atomically` transactions may run at a time. Other calls use the remaining connections. */
  readonly writesAtOnce: number;
}

/** Adds events in the caller's own transaction. */
export interface TransactionStore {
  /** Does the same as {@link EventStore.add}. The event is recorded when the caller commits. */
  add(event: NewEvent, options?: AddOptions): Promise<"added" | "duplicate" | "conflict">;
}

/** The store that {@link postgresStore} returns. `event.atomically` gives your function a client of `pg`. */
export interface PostgresStore extends EventStore<ClientBase> {
  /** The store calls the functions passed to `event.atomically` in the transaction that ends the event. */
  readonly transactional: true;
  /**
   * Returns a store whose `add` runs in the open transaction of `client`. Keep the transaction short. From `add` to
   * the end of the transaction, the store can neither record nor handle another event of the same booking or listing.
   * A running attempt for this booking or listing must wait to renew its lease. If this wait exceeds 5 s or a third
   * of `leaseDuration`, the attempt loses its lease.
   */
  with(client: ClientBase): TransactionStore;
  /** Creates or upgrades the schema. This call is optional: the first call of any other method does the same. */
  migrate(): Promise<void>;
}

export class PgStore extends BaseStore<ClientBase> implements PostgresStore {
  readonly transactional = true;
  readonly #connections: Connections;
  readonly #commands: Commands;
  readonly #run: Statements;
  readonly #adds: Groups<Addition, AddAnswer>;
  readonly #endings: Groups<Ending, boolean>;
  readonly #notifier: Notifier;
  readonly #writing: Slots;
  /** Claims begin their search at this `seq`. The last claim found no older pending event. */
  #since = 0;
  #thoroughAt = Number.NEGATIVE_INFINITY;

  constructor(connections: Connections, { schema, migrate, writesAtOnce, ...notifier }: StoreOptions) {
    super();
    this.#connections = connections;
    this.#run = statements(schema);
    this.#notifier = new Notifier(connections, this.subscribers, { ...notifier, channel: channelOf(schema) });
    this.#commands = new Commands(connections, {
      statements: this.#run,
      migrate,
      assertOpen: () => this.assertOpen(),
      madeDue: () => this.#notifier.madeDue(),
    });
    this.#writing = createSlots(writesAtOnce);
    this.#adds = new Groups((additions, patience) => this.#addAll(additions, patience), false);
    this.#endings = new Groups((endings, patience) => this.#settleAll(endings, patience), true);
  }

  async migrate(): Promise<void> {
    await this.#commands.call("the schema could not be created", async () => {});
  }

  with(client: ClientBase): TransactionStore {
    return {
      add: async (event, options) => {
        const dueIn = options?.dueIn === undefined ? undefined : clampWait(options.dueIn);
        const values = addValues([toAddition(event, dueIn)], PATIENCE.alone, true);
        return this.#commands.call(ADDING, async () => {
          const { rows } = await client.query<Row>({ text: this.#run.add, values });
          return toAnswers(rows, 1)[0]!;
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

  protected async doAdd(event: NewEvent, dueIn: number | undefined): Promise<AddAnswer> {
    const addition = toAddition(event, dueIn);
    return this.#commands.call(ADDING, () => this.#adds.add(addition));
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
    const run = (since: number) => this.#commands.claim(token, leaseDuration, [...values, since]);
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
    return this.#commands.call("leases could not be renewed", async () => {
      const rows = await this.#renew(claims, leaseDuration, null);
      const held = new Set(rows.filter(({ locked }) => locked !== "true").map(at));
      const locked = rows.filter(({ locked }) => locked === "true").map(at);
      // Renew each locked record alone. During a wait for one lock, the leases of the other records could expire.
      const patience = `${Math.round(Math.min(MOST_PATIENCE, Math.max(1, leaseDuration / 3)))}ms`;
      const alone = async (index: number) => {
        const renewed = await this.#renew([claims[index] as ClaimedEvent], leaseDuration, patience);
        if (renewed.length > 0) held.add(index);
      };
      for (const result of await Promise.allSettled(locked.map(alone)))
        if (result.status === "rejected" && sqlState(result.reason) !== LOCKED) throw result.reason;
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
    return this.#commands.call("the result of an attempt could not be recorded", async () => {
      try {
        const settled = await this.#settle(claim, outcome);
        this.#commands.lost.settled(claim.lease);
        return settled;
      } catch (error) {
        if (!(error instanceof WriteFailed) && lostConnection(error))
          this.#commands.lost.settling(claim.lease);
        throw error;
      }
    });
  }

  protected async doNextDue(): Promise<number | undefined> {
    const [row] = await this.#commands.query(READING, this.#run.nextDue, [this.#since]);
    return typeof row?.wait === "string" ? Math.max(0, Number(row.wait)) : undefined;
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const [row] = await this.#commands.query(READING, this.#run.get, [toText(eventId)]);
    return row && toStoredEvent(row);
  }

  protected async doList(filter: EventFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const values = [...filterValues(filter), before ?? null, most(limit)];
    const rows = await this.#commands.query(READING, this.#run.list, values);
    return { found: rows.filter(({ id }) => id !== null).map(toStoredEvent), next: number(rows[0]?.resume) };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    const [row] = await this.#commands.query(READING, this.#run.arrivalOf, [toText(eventId)]);
    return number(row?.seq);
  }

  protected async doChange(
    change: Change,
    filter: EventFilter,
    { before, limit }: Slice,
  ): Promise<Sliced<number>> {
    const values = [change, changedFrom[change], ...filterValues(filter), before ?? null, most(limit)];
    const [row] = await this.#commands.query("events could not be changed", this.#run.change, values);
    this.#madeDue(row);
    return { found: Number(row?.changed), next: number(row?.resume) };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const rows = await this.#commands.query(READING, this.#run.counts);
    const found = Object.fromEntries(rows.map(({ state, events }) => [state, Number(events)]));
    return { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0, ...found };
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    const [row] = await this.#commands.query(READING, this.#run.oldestWaiting);
    return typeof row?.age === "string" ? Math.max(0, Number(row.age)) : undefined;
  }

  protected async doNewestReceived(): Promise<Date | undefined> {
    const [row] = await this.#commands.query(READING, this.#run.newestReceived, [NEWEST_RECEIVED]);
    return toDate(row?.at) ?? undefined;
  }

  protected async doErase(ref: string): Promise<number | undefined> {
    const [row] = await this.#commands.query("a record could not be erased", this.#run.erase, [toText(ref)]);
    return number(row?.gone);
  }

  protected async doRecordOf(ref: string): Promise<RecordSnapshot | undefined> {
    const [row] = await this.#commands.query(READING, this.#run.recordOf, [toText(ref)]);
    return row && toRecordSnapshot(row);
  }

  protected async doRecords(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    const rows = await this.#commands.query(READING, this.#run.records, [toText(after ?? ""), limit]);
    return rows.map(toRecordSnapshot);
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const values = [toText(ref), toSnapshotText(snapshot)];
    const [row] = await this.#commands.query("a snapshot could not be written", this.#run.learn, values);
    return row?.learned === "true";
  }

  protected async doGetMeta(
    key: string,
  ): Promise<{ readonly value: string; readonly age: number } | undefined> {
    const [row] = await this.#commands.query("a meta value could not be read", this.#run.getMeta, [
      toText(key),
    ]);
    return row && { value: fromText(row.value as string), age: Number(row.age) };
  }

  protected async doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    const values = [toText(key), optional(value), optional(expected)];
    const [row] = await this.#commands.query("a meta value could not be written", this.#run.setMeta, values);
    return row?.done === "true";
  }

  protected async doPrune({ state, reason, age, limit }: PruneOptions): Promise<number> {
    const values = [state, reason ?? null, ms(age), most(limit)];
    const [row] = await this.#commands.query("old events could not be deleted", this.#run.prune, values);
    return Number(row?.gone);
  }

  protected async doPruneRecords({ age, limit }: PruneRecordsOptions): Promise<number> {
    const [row] = await this.#commands.query("old snapshots could not be deleted", this.#run.pruneRecords, [
      ms(age),
      most(limit),
    ]);
    return Number(row?.gone);
  }

  protected async doClose(): Promise<void> {
    this.subscribers.clear();
    this.#notifier.stop();
    await Promise.all([this.#adds.idle(), this.#endings.idle()]);
    await this.#connections.close();
  }

  /**
   * Returns the `seq` at which a claim begins to search the index. The claim thus skips the dead entries below this
   * `seq`. PostgreSQL keeps dead entries while any client has a long transaction.
   */
  #sinceNow(): number {
    const now = performance.now();
    if (now - this.#thoroughAt >= THOROUGH || now < this.#thoroughAt) {
      this.#thoroughAt = now;
      this.#since = 0;
    }
    return Math.max(0, this.#since);
  }

  async #addAll(additions: readonly Addition[], patience: string): Promise<AddAnswer[]> {
    let notify = this.#notifier.isAtRest;
    const send = () => this.#connections.query(this.#run.add, addValues(additions, patience, notify));
    const rows = await again(send).catch((error: unknown) => {
      if (!notify || sqlState(error) !== NOTIFY_FULL) throw error;
      notify = false;
      return again(send);
    });
    this.#madeDue(rows[0], notify);
    return toAnswers(rows, additions.length);
  }

  async #settleAll(endings: readonly Ending[], patience: string): Promise<boolean[]> {
    const values = settleValues(endings, patience);
    const rows = await again(() => this.#connections.query(this.#run.settle, values));
    this.#madeDue(rows[0]);
    return rows.map(({ settled }) => settled === "true");
  }

  #settle(claim: ClaimedEvent, outcome: Outcome<ClientBase>): Promise<boolean> {
    if (outcome.state !== "done" || outcome.writes === undefined || outcome.writes.length === 0)
      return this.#endings.add(toEnding(claim, outcome, this.#commands.lost.isUnsure(claim.lease)));
    const withWrites = { ...outcome, writes: outcome.writes };
    return this.#writing.run(() =>
      again(async () => {
        const unsure = this.#commands.lost.isUnsure(claim.lease);
        const row = await this.#connections.use((session) =>
          settleWithWrites(session, this.#run, claim, withWrites, unsure),
        );
        this.#madeDue(row);
        return row?.settled === "true";
      }),
    );
  }

  #madeDue(row: Row | undefined, notified = false): void {
    if (row?.made_due === "true") this.#notifier.madeDue(notified);
  }
}

const ADDING = "the event could not be recorded";
const READING = "events could not be read";

function at({ place }: Row): number {
  return Number(place) - 1;
}

function number(text: string | null | undefined): number | undefined {
  return text === null || text === undefined ? undefined : Number(text);
}

function ms(time: number): number {
  return Math.min(Math.max(0, time), LONGEST);
}

function most(limit: number): number {
  return Math.min(Math.max(0, Math.floor(limit)), MOST_ROWS);
}
