import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { withTimeout } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { CLOSE_WITHIN } from "../base-store.ts";
import type { Restriction } from "../beginnings.ts";
import { ANSWER_WITHIN } from "../call-errors.ts";
import type { RowFilter } from "../event-filter.ts";
import { type Change, type EventState, eventStates } from "../event-states.ts";
import type { MemoryTables } from "../memory/memory-tables.ts";
import { changeEvents } from "../memory/record-rules.ts";
import type { Addition, Settlement } from "../outcomes.ts";
import { RecordStore } from "../record-store.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordLedger, RecordSnapshot } from "../snapshot.ts";
import { fromText, toText } from "../sql/sql-rows.ts";
import type { Timed } from "../store-clock.ts";
import type { PruneOptions, PruneSnapshotsOptions, StoreSchema } from "../store-options.ts";
import type { StoreProblem } from "../store-problem.ts";
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
import type { Connection } from "./redis-connection.ts";
import { hasCode, NotSentError, noAnswer, problemWith } from "./redis-errors.ts";
import { type KeptPage, keptAfter } from "./redis-kept.ts";
import { LoadedRows, nameOfRecord } from "./redis-loaded.ts";
import { FIRST_VERSION, LATEST_VERSION } from "./redis-migrations.ts";
import { Notifier } from "./redis-notifier.ts";
import {
  bounded,
  type ClaimReply,
  MOST,
  type Num,
  PAGE,
  type Place,
  type RowReply,
  recordName,
  toAdd,
  toClaimed,
  toHeld,
  toLook,
  toNumber,
  toRecordSnapshot,
  toRestriction,
  toSettle,
  toStoredEvent,
} from "./redis-rows.ts";
import { runsOnce, type ScriptName } from "./redis-scripts.ts";
import { tryOut } from "./redis-trial.ts";

/** How long after its claim was given back a script may still arrive, ms. A later one leases events until their leases end. */
const LATEST = 60 * 60_000;

/** How often a change runs again because another process changed its rows meanwhile. */
const TRIES = 100;
/** The longest wait before a change runs again, ms. */
const LONGEST_PAUSE = 50;

interface RedisScope extends Scope {
  /** The input of the Lua function `look`, which finds events that the rule also needs. Gets where to go on. */
  readonly find?: ReturnType<typeof toLook> & { next: number | undefined };
}

/** What {@link RedisStore} takes beside its connection. */
interface RedisOptions {
  readonly onFirstUse?: () => void;
  /** Returns what settings of Redis can lose. */
  readonly risks?: () => Promise<readonly string[]>;
  /** Called with the id of an event whose key somebody deleted: once, in one of the processes. */
  readonly onGone?: (eventId: string) => void;
  /** Whether the store creates and upgrades its keys. Default `true`. */
  readonly migrates?: boolean;
  /** A clock for tests. Default: the clock of Redis. */
  readonly now?: () => number;
}

/**
 * Runs Lua scripts. Redis never interrupts a script, so other clients see all of its writes or none. `redis-lua.ts`
 * lists the keys.
 */
export class RedisStore extends RecordStore {
  /** While a script runs, Redis runs no other command, and a step of more records meets more changes of others. */
  protected override readonly step = 100;
  readonly #connection: Connection;
  readonly #notifier: Notifier;
  readonly #options: RedisOptions;
  /** Identifies this store instance in the messages that it publishes. */
  #handle = randomUUID();
  #started: Promise<string> | undefined;
  /** The value of `connections` when the script `start` last succeeded. */
  #life = 0;
  readonly #running = new Set<Promise<unknown>>();
  readonly #unusable = (problem: string | undefined) =>
    new StayhookError(`redisStore (${this.#connection.name}): ${problem}.`);
  readonly #kept = (input: object) => this.#run("snapshots", input) as Promise<KeptPage>;

  constructor(connection: Connection, options: RedisOptions = {}) {
    super();
    this.#connection = connection;
    this.#options = options;
    this.#notifier = new Notifier(connection, {
      channel: async () => `${await this.#start()}:wake`,
      // An instance hears its own messages, too. The script `start` publishes an empty handle.
      heard: (handle) => handle !== "" && handle !== this.#handle && this.wakeHere(),
      wake: () => this.wakeHere(),
    });
  }

  async schema(): Promise<StoreSchema> {
    this.assertOpen();
    const reading = this.#connection.run("schema", this.#argsOf({}));
    this.#running.add(reading);
    const [keys, found] = (await reading.finally(() => this.#running.delete(reading))) as [string, Num];
    const version = Number(found);
    if (version > 0 && version < FIRST_VERSION) throw this.#unusable(problemWith(keys, version));
    return { version, expected: LATEST_VERSION };
  }

  async problems(): Promise<readonly StoreProblem[]> {
    this.assertOpen();
    const found: StoreProblem[] = [];
    await tryOut(this.#connection).catch((error: Error) =>
      found.push({ fails: true, detail: error.message }),
    );
    // Some providers block INFO.
    const unread = (error: Error) => [`The settings of Redis could not be read: ${error.message}`];
    const risks = (await this.#options.risks?.().catch(unread)) ?? [];
    return [...found, ...risks.map((detail) => ({ fails: false, detail }))];
  }

  override subscribe(wake: () => void): () => void {
    const unsubscribe = super.subscribe(wake);
    this.#notifier.listen();
    return unsubscribe;
  }

  protected async doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    return (await this.#run("add", additions.map(toAdd), ANSWER_WITHIN)) as AddAnswer[];
  }

  protected async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    const { token, leaseDuration, worker = "", eventId } = call;
    const input = {
      ...{ name: token, duration: leaseDuration, worker: toText(worker), restriction: toRestriction(call) },
      id: eventId === undefined ? undefined : toText(eventId),
    };
    const claimed: Claimed[] = [];
    for (let after: Place; ; ) {
      const limit = Math.min(call.limit - claimed.length, MOST);
      const place = { limit, after: after ?? undefined };
      const reply = (await this.#run("claim", { ...input, ...place })) as ClaimReply;
      const [now, rows, next, gone = []] = reply;
      for (const id of gone) this.#options.onGone?.(fromText(id));
      claimed.push(...rows.map(toClaimed));
      after = reply[4];
      const nextDueAt = next == null ? next : Number(next) < 0 ? undefined : Number(next);
      if (!after || claimed.length >= call.limit) return { now: Number(now), result: { claimed, nextDueAt } };
    }
  }

  /** A script's answer is the first to know its claims, so Redis is asked. */
  protected override async doFindLost(calls: readonly ClaimCall[]): Promise<readonly Claimed[]> {
    const input = { names: calls.map(({ token }) => token), keep: LATEST };
    return ((await this.#run("findLost", input)) as RowReply[]).map(toClaimed);
  }

  protected async doRenew(claims: readonly ClaimedEvent[], duration: number): Promise<readonly string[]> {
    return (await this.#run("renew", { duration, claims: claims.map(toHeld) })) as string[];
  }

  protected async doSettle(settlements: readonly Settlement<never>[]): Promise<readonly Settled[]> {
    const settled = (await this.#run("settle", settlements.map(toSettle))) as [Num, Num][];
    return settled.map(([held, more]) => ({ held: Number(held) === 1, more: Number(more) === 1 }));
  }

  protected async doNextDue(given: Restriction): Promise<Timed<number | undefined>> {
    const restriction = toRestriction(given);
    for (let after: Place; ; ) {
      const input = { restriction, after: after ?? undefined };
      const reply = (await this.#run("nextDue", input)) as [Num, Num | null, Place];
      const [now, next] = [Number(reply[0]), toNumber(reply[1])];
      after = reply[2];
      if (next !== undefined || !after) return { now, result: next && Math.max(0, next - now) };
    }
  }

  protected async dueRecords(): Promise<RecordPage> {
    const records = (await this.#run("dueRecords")) as string[];
    return { found: records.map(nameOfRecord), next: undefined };
  }

  /** Loads rows, and writes the changes of the rule if the rows are still the same. Otherwise tries again. */
  protected override async withRecords<T>(scope: RedisScope, rule: (tables: MemoryTables) => T): Promise<T> {
    const { find } = scope;
    const records = [...new Set(scope.records.map(recordName))];
    const keys = {
      records,
      ids: scope.ids?.map(toText),
      ended: scope.ended,
      eventsOnly: find !== undefined,
    };
    for (let tries = 1; tries <= TRIES; tries += 1) {
      // A smaller page meets fewer changes of others.
      const page = find && { ...find, size: Math.max(1, Math.floor(find.size / 2 ** (tries - 1))) };
      const reply = (await this.#run("load", { ...keys, find: page })) as [Num, string, string[], Num | null];
      const [now, rows, ids, next] = reply;
      const loaded = new LoadedRows(rows, Number(now));
      const result = rule(loaded.tables);
      if (find !== undefined) find.next = toNumber(next);
      const changes = loaded.changes();
      if (changes === undefined) return result;
      const given = find === undefined ? keys : { ...keys, ids };
      const sum = createHash("sha1").update(rows).digest("hex");
      if (Number(await this.#run("write", { scope: given, sum, ...changes })) === 1) return result;
      await sleep(Math.random() * Math.min(tries, LONGEST_PAUSE));
    }
    throw new StayhookError(
      `redisStore: ${scope.failing}. Other processes changed the same records during each of ${TRIES} tries. Call again later.`,
    );
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = (await this.#run("get", { id: toText(eventId) })) as RowReply | null;
    return row === null ? undefined : toStoredEvent(row);
  }

  protected async doList(filter: RowFilter, slice: Slice): Promise<Sliced<StoredEvent[]>> {
    const [rows, next] = (await this.#run("list", toLook(filter, slice))) as [RowReply[], Num | null];
    return { found: rows.map(toStoredEvent), next: toNumber(next) };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return toNumber(await this.#run("arrival", { id: toText(eventId) }));
  }

  protected async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    slice: Slice,
  ): Promise<Sliced<number>> {
    const find: RedisScope["find"] = { ...toLook(filter, { ...slice, limit: PAGE }), next: undefined };
    const scope = { records: [], find, failing: "events could not be changed" };
    const found = await this.withRecords(scope, (tables) =>
      changeEvents(tables, change, tables.matching(filter, slice.before), states),
    );
    return { found, next: find.next };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const counts = (await this.#run("counts", eventStates)) as Num[];
    const entries = eventStates.map((state, index) => [state, Number(counts[index])]);
    return Object.fromEntries(entries) as Record<EventState, number>;
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    return toNumber(await this.#run("oldestWaiting"));
  }

  protected async doScheduledDue(): Promise<number> {
    return Number(await this.#run("scheduledDue"));
  }

  protected async doLastReceivedAt(): Promise<number | undefined> {
    return toNumber(await this.#run("lastReceivedAt"));
  }

  /** @param from - the arrival number or, after the last event, `/` and the ref to go on from */
  protected async recordsOf(account: string, from = "0"): Promise<RecordPage> {
    const place = from.startsWith("/") ? { ref: from.slice(1) } : { seq: from };
    const reply = await this.#run("recordsOf", { account, limit: this.step, ...place });
    const [records, seq, ref] = reply as [string[], Num | null, string | null];
    const rest = ref === null ? undefined : `/${ref}`;
    const next = "seq" in place ? (seq === null ? "/" : String(seq)) : rest;
    return { found: records.map(nameOfRecord), next };
  }

  protected async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    const [packed, ledger] = await this.#keptOf(ref);
    return packed === null ? undefined : toRecordSnapshot(ref, packed, ledger);
  }

  protected async doLedgerOf(ref: string): Promise<string | undefined> {
    const [, ledger] = await this.#keptOf(ref);
    return ledger === null ? undefined : fromText(ledger);
  }

  async #keptOf(ref: string): Promise<readonly [snapshot: string | null, ledger: string | null]> {
    return (await this.#run("snapshotOf", { ref: toText(ref) })) as [string | null, string | null];
  }

  protected doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    return keptAfter(this.#kept, after, limit, (ref, packed, ledger) =>
      packed === null ? undefined : toRecordSnapshot(ref, packed, ledger),
    );
  }

  protected doLedgers(after: string | undefined, limit: number): Promise<RecordLedger[]> {
    return keptAfter(this.#kept, after, limit, (ref, _, ledger) =>
      ledger === null ? undefined : { ref, ledger: fromText(ledger) },
    );
  }

  protected async doGetMeta(key: string): Promise<{ value: string; age: number } | undefined> {
    const kept = (await this.#run("getMeta", { key: toText(key) })) as [string, Num] | null;
    return kept === null ? undefined : { value: fromText(kept[0]), age: Number(kept[1]) };
  }

  protected async doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    const pack = (text: string | undefined) => (text === undefined ? undefined : toText(text));
    const input = { key: toText(key), value: pack(value), expected: pack(expected) };
    return Number(await this.#run("setMeta", input)) === 1;
  }

  protected async doPrune(options: PruneOptions): Promise<number> {
    return Number(await this.#run("prune", bounded(options)));
  }

  protected async oldSnapshots(options: PruneSnapshotsOptions): Promise<readonly RecordName[]> {
    const refs = (await this.#run("oldSnapshots", bounded(options))) as string[];
    return refs.map((ref) => nameOfRecord(`r${ref}`));
  }

  protected async doClose(): Promise<void> {
    this.#notifier.close();
    await withTimeout(CLOSE_WITHIN, Promise.allSettled(this.#running));
    this.#connection.close();
  }

  #run(name: ScriptName, input: object = {}, answerWithin?: number): Promise<unknown> {
    const running = this.#runStarted(name, input, answerWithin);
    this.#running.add(running);
    return running.finally(() => this.#running.delete(running));
  }

  async #runStarted(name: ScriptName, input: object, answerWithin?: number): Promise<unknown> {
    await this.#start();
    const last = this.#connection.nextConnection;
    try {
      const answer = await this.#connection.run(name, this.#argsOf(input), answerWithin);
      if (this.#connection.connections > last) {
        // ioredis sent the call again.
        if (runsOnce.has(name))
          throw noAnswer(this.#connection, "may have run the call twice, after the connection was lost");
        this.#mayRunLater();
      }
      return answer;
    } catch (error) {
      // After a reconnect, the server may have restarted without its data. Let the next call run `start` again.
      if (hasCode((error as Error).cause, "NOMETA") && this.#life !== this.#connection.connections)
        this.#started = undefined;
      if (!(error instanceof NotSentError)) this.#mayRunLater();
      throw error;
    }
  }

  /**
   * Wakes the subscribers after a call without an answer, because Redis may have run its script. Redis may also run the
   * script later, and publish a message with the old handle. With a new handle, this instance hears that message.
   */
  #mayRunLater(): void {
    this.#handle = randomUUID();
    this.wakeHere();
  }

  #argsOf(input: object): string[] {
    return [String(this.#options.now?.() ?? ""), this.#handle, JSON.stringify(input)];
  }

  /** Resolves to the prefix of all keys, which begins with the `keyPrefix` of a user's client. */
  #start(): Promise<string> {
    this.#started ??= this.#open().catch((error) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  async #open(): Promise<string> {
    const input = this.#argsOf({ migrate: this.#options.migrates ?? true });
    const [keys, version] = (await this.#connection.run("start", input)) as [string, Num];
    const problem = problemWith(keys, Number(version));
    if (problem) throw this.#unusable(problem);
    this.#life = this.#connection.connections;
    this.#options.onFirstUse?.();
    return keys;
  }
}
