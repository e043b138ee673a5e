import { randomBytes } from "node:crypto";
import { withTimeout } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { BaseStore, CLOSE_WITHIN } from "../base-store.ts";
import type { RowFilter } from "../event-filter.ts";
import { type Change, type EventState, eventStates } from "../event-states.ts";
import type { PruneOptions, PruneSnapshotsOptions, StoreSchema } from "../event-store.ts";
import type { Addition, Settlement } from "../outcomes.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordSnapshot, Snapshot } from "../snapshot.ts";
import { fromText, toText } from "../sql/sql-rows.ts";
import type { Timed } from "../store-clock.ts";
import type { StoreProblem } from "../store-problem.ts";
import type { AddAnswer, ClaimCall, Claimed, ClaimResult, EraseStep, Settled } from "../store-steps.ts";
import type { ClaimedEvent, StoredEvent } from "../stored-event.ts";
import type { Connection } from "./redis-connection.ts";
import { hasCode, NotSentError } from "./redis-errors.ts";
import { FIRST_VERSION, LATEST_VERSION } from "./redis-migrations.ts";
import { Notifier } from "./redis-notifier.ts";
import {
  packSnapshot,
  type RowReply,
  recordName,
  toAdd,
  toClaimed,
  toHeld,
  toRecordSnapshot,
  toRemove,
  toRestore,
  toSettle,
  toStoredEvent,
} from "./redis-rows.ts";
import type { ScriptName } from "./redis-scripts.ts";

/** The maximum number of events that one script reads. While a script runs, Redis runs no other command. */
const PAGE = 200;

/** Stands for `Infinity`, which JSON cannot hold. */
const MOST = 1e12;

/** How long after its claim was given back a script may still arrive, ms. A later one leases events until their leases end. */
const LATEST = 60 * 60_000;

/** What {@link RedisStore} takes beside its connection. */
interface RedisOptions {
  readonly onFirstUse?: () => void;
  /** Returns what settings of Redis can lose. */
  readonly risks?: () => Promise<readonly string[]>;
  /** Called with the id of an event whose key somebody deleted: once, in one of the processes. */
  readonly onGone?: (eventId: string) => void;
  /** Whether the store creates and upgrades its keys. Default `true`. */
  readonly migrates?: boolean;
  /** A clock for tests. */
  readonly now?: () => number;
}

/** Redis may answer a number as text, because of an option of a user's client. */
type Num = number | string;

/**
 * Runs Lua scripts. Redis never interrupts a script, so other clients see all of its writes or none. `redis-lua.ts`
 * lists the keys.
 */
export class RedisStore extends BaseStore {
  readonly #connection: Connection;
  readonly #notifier: Notifier;
  /** A clock for tests. If it is `undefined`, scripts use the clock of Redis. */
  readonly #now: (() => number) | undefined;
  readonly #onFirstUse: () => void;
  readonly #onGone: (eventId: string) => void;
  readonly #risks: () => Promise<readonly string[]>;
  /** Whether the store creates and upgrades its keys. */
  readonly #migrates: boolean;
  /** Identifies this store instance in the messages that it publishes. */
  #handle = newName();
  #started: Promise<string> | undefined;
  /** The value of `connections` when the script `start` last succeeded. */
  #life = 0;
  readonly #running = new Set<Promise<unknown>>();

  constructor(
    connection: Connection,
    {
      onFirstUse = () => {},
      onGone = () => {},
      risks = async () => [],
      migrates = true,
      now,
    }: RedisOptions = {},
  ) {
    super();
    this.#migrates = migrates;
    this.#connection = connection;
    this.#onFirstUse = onFirstUse;
    this.#onGone = onGone;
    this.#risks = risks;
    this.#now = now;
    this.#notifier = new Notifier(connection, {
      channel: async () => `${await this.#start()}:wake`,
      // An instance hears its own messages, too. The script `start` publishes an empty handle.
      heard: (handle) => handle !== "" && handle !== this.#handle && this.subscribers.wake(),
      wake: () => this.subscribers.wake(),
    });
  }

  async schema(): Promise<StoreSchema> {
    this.assertOpen();
    const reading = this.#connection.run("schema", this.#argsOf({}));
    this.#running.add(reading);
    const version = Number(await reading.finally(() => this.#running.delete(reading)));
    return { version, expected: LATEST_VERSION };
  }

  async problems(): Promise<readonly StoreProblem[]> {
    this.assertOpen();
    return (await this.#risks()).map((detail) => ({ fails: false, detail }));
  }

  override subscribe(wake: () => void): () => void {
    const unsubscribe = super.subscribe(wake);
    this.#notifier.listen();
    return unsubscribe;
  }

  protected async doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    return (await this.#run("add", additions.map(toAdd))) as AddAnswer[];
  }

  protected async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    const { token, leaseDuration, worker = "", eventId } = call;
    const input = {
      ...{ name: token, duration: leaseDuration, worker: toText(worker) },
      limit: Math.min(call.limit, MOST),
      only: eventId === undefined ? undefined : toText(eventId),
    };
    const reply = (await this.#run("claim", input)) as [Num, RowReply[], Num | null | undefined, string[]?];
    const [now, rows, next, gone = []] = reply;
    for (const id of gone) this.#onGone(fromText(id));
    const nextDueAt = next == null ? next : Number(next);
    return { now: Number(now), result: { claimed: rows.map(toClaimed), nextDueAt } };
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

  protected async doNextDue(): Promise<Timed<number | undefined>> {
    const [now, next] = ((await this.#run("nextDue")) as [Num, Num | null]).map(toNumber);
    return { now: now!, result: next === undefined ? undefined : Math.max(0, next - now!) };
  }

  protected async doSetBack(): Promise<void> {
    await this.#run("setBack");
  }

  protected async doRemove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    const record = recordName({ ref, eventId: "" });
    return Number(await this.#run("remove", { record, what: toRemove(what) }));
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
    const input = { change, states, ...toLook(filter, { ...slice, limit: PAGE }) };
    const [changed, next] = (await this.#run("change", input)) as [Num, Num | null];
    return { found: Number(changed), next: toNumber(next) };
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

  protected async doErase(ref: string): Promise<number | undefined> {
    const erased = Number(await this.#run("erase", { ref: toText(ref) }));
    return erased < 0 ? undefined : erased;
  }

  protected async doEraseAccount(account: string, from = "0,0"): Promise<EraseStep> {
    const [skip, past] = from.split(",").map(Number);
    const input = { account, skip, past, limit: PAGE };
    const [events, snapshots, processing, next] = (await this.#run("eraseAccount", input)) as [
      ...[Num, Num, Num],
      string | null,
    ];
    return {
      ...{ events: Number(events), snapshots: Number(snapshots), processing: Number(processing) },
      next: next ?? undefined,
    };
  }

  protected async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    const packed = (await this.#run("snapshotOf", { ref: toText(ref) })) as string | null;
    return packed === null ? undefined : toRecordSnapshot(ref, packed);
  }

  protected async doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    const input = { after: after === undefined ? undefined : toText(after), limit };
    const [refs, packed] = (await this.#run("snapshots", input)) as [string[], (string | null)[]];
    return refs.flatMap((ref, index) => {
      // Somebody may have deleted the key of the snapshots.
      const found = packed[index];
      return found ? [toRecordSnapshot(fromText(ref), found)] : [];
    });
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const input = { ref: toText(ref), snapshot: packSnapshot(snapshot) };
    return Number(await this.#run("learn", input)) === 1;
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

  protected async doPruneSnapshots(options: PruneSnapshotsOptions): Promise<number> {
    return Number(await this.#run("pruneSnapshots", bounded(options)));
  }

  protected async doRestore(
    events: readonly StoredEvent[],
    snapshots: readonly RecordSnapshot[],
  ): Promise<void> {
    const records = snapshots.map(({ ref, sequence, seenAt, snapshot }) => {
      return { ref: toText(ref), sequence, seenAt: seenAt.getTime(), snapshot: packSnapshot(snapshot) };
    });
    await this.#run("restore", { events: events.map(toRestore), snapshots: records });
  }

  protected async doClose(): Promise<void> {
    this.#notifier.close();
    await withTimeout(CLOSE_WITHIN, Promise.allSettled(this.#running));
    this.#connection.close();
  }

  #run(name: ScriptName, input: object = {}): Promise<unknown> {
    const running = this.#runStarted(name, input);
    this.#running.add(running);
    return running.finally(() => this.#running.delete(running));
  }

  async #runStarted(name: ScriptName, input: object): Promise<unknown> {
    await this.#start();
    try {
      return await this.#connection.run(name, this.#argsOf(input));
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
    this.#handle = newName();
    this.subscribers.wake();
  }

  #argsOf(input: object): string[] {
    return [String(this.#now?.() ?? ""), this.#handle, JSON.stringify(input)];
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
    const input = this.#argsOf({ migrate: this.#migrates });
    const [keys, version] = (await this.#connection.run("start", input)) as [string, Num];
    const problem = problemWith(keys, Number(version));
    if (problem !== undefined) throw new StayhookError(`redisStore (${this.#connection.name}): ${problem}.`);
    this.#life = this.#connection.connections;
    this.#onFirstUse();
    return keys;
  }
}

/** Newer versions of stayhook only add keys and fields, so this version can use newer keys. */
function problemWith(keys: string, version: number): string | undefined {
  if (version >= LATEST_VERSION) return undefined;
  if (version > 0 && version < FIRST_VERSION)
    return `an older version of stayhook wrote the keys ${keys}:*, and this version cannot read them. Set the option prefix to another value, or delete the keys`;
  const found = version === 0 ? "do not exist" : `have schema version ${version}`;
  return `the keys ${keys}:* ${found}, this version of stayhook needs schema version ${LATEST_VERSION}, and the option migrate is false. Start one process without migrate: false, which creates or upgrades the keys`;
}

/** The input of the Lua function `look`. */
function toLook(filter: RowFilter, { before, limit }: Slice) {
  const { eventId, ref, state, type, receivedAfter, receivedBefore, ...rest } = filter;
  const texts = Object.entries({ eventId, ref, type }).map(([name, text]) => [name, text && toText(text)]);
  const packed = {
    ...rest,
    ...{ state, receivedAfter: receivedAfter?.getTime(), receivedBefore: receivedBefore?.getTime() },
    ...Object.fromEntries(texts),
  };
  return { filter: packed, before, size: PAGE, limit: Math.min(limit, PAGE) };
}

/** A number that JSON can hold instead of `Infinity`. */
function bounded<T extends { readonly age: number; readonly limit: number }>(options: T): T {
  return { ...options, age: Math.min(options.age, MOST), limit: Math.min(options.limit, MOST) };
}

function toNumber(reply: unknown): number | undefined {
  return reply === null ? undefined : Number(reply);
}

function newName(): string {
  return randomBytes(12).toString("base64url");
}
