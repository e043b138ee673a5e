import { randomBytes } from "node:crypto";
import { StayhookError } from "../../errors.ts";
import {
  type AddAnswer,
  BaseStore,
  type Claimed,
  type Settled,
  type Slice,
  type Sliced,
  type Timed,
} from "../base-store.ts";
import type { Change, EventState } from "../event-states.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  PruneOptions,
  PruneSnapshotsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { type Addition, type Settlement, settlementOf } from "../outcomes.ts";
import { fromText, toText } from "../sql/sql-rows.ts";
import type { Connection } from "./redis-connection.ts";
import { hasCode, NotSentError } from "./redis-errors.ts";
import { Notifier } from "./redis-notifier.ts";
import {
  addArgs,
  packSnapshot,
  packText,
  type RowReply,
  recordOf,
  removeArgs,
  restoreArgs,
  settleArgs,
  toClaimed,
  toRecordSnapshot,
  toStoredEvent,
} from "./redis-rows.ts";
import type { ScriptName } from "./redis-scripts.ts";

/** The maximum number of events that one script reads. While a script runs, Redis runs no other command. */
const PAGE = 200;
/** The version of the key layout. Newer layouts only add keys or fields, so this version of stayhook can use them. */
const SCHEMA = 2;

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
  /** Identifies this store instance in the messages that it publishes. */
  #handle = newName();
  #started: Promise<string> | undefined;
  /** The value of `connections` when the script `start` last succeeded. */
  #life = 0;
  /** Names of claims whose answer was lost. Redis may run such a claim until its time by `performance.now()`. */
  readonly #lostClaims = new Map<string, number>();

  constructor(connection: Connection, onFirstUse: () => void = () => {}, now?: () => number) {
    super();
    this.#connection = connection;
    this.#onFirstUse = onFirstUse;
    this.#now = now;
    this.#notifier = new Notifier(connection, {
      channel: async () => `${await this.#start()}:wake`,
      // An instance hears its own messages, too. The script `start` publishes an empty handle.
      heard: (handle) => handle !== "" && handle !== this.#handle && this.subscribers.wake(),
      wake: () => this.subscribers.wake(),
    });
  }

  override subscribe(wake: () => void): () => void {
    const unsubscribe = super.subscribe(wake);
    this.#notifier.listen();
    return unsubscribe;
  }

  protected async doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    return (await this.#run("add", additions.flatMap(addArgs))) as AddAnswer[];
  }

  protected async doClaim(options: ClaimOptions): Promise<Timed<readonly Claimed[]>> {
    await this.#releaseLostClaims();
    const { limit, leaseDuration, worker = null, eventId, newestFirst } = options;
    const name = newName();
    const most = String(Math.min(limit, Number.MAX_SAFE_INTEGER));
    const only = eventId === undefined ? "" : toText(eventId);
    const args = [most, String(leaseDuration), name, JSON.stringify(worker), only, newestFirst ? "1" : ""];
    try {
      const [now, rows] = (await this.#run("claim", args)) as [Num, RowReply[]];
      return { now: Number(now), result: rows.map(toClaimed) };
    } catch (error) {
      if (!(error instanceof NotSentError))
        this.#lostClaims.set(name, performance.now() + options.leaseDuration);
      throw error;
    }
  }

  /** Gives back the leases of claims whose answer was lost, because no process works on their events. */
  async #releaseLostClaims(): Promise<void> {
    if (this.#lostClaims.size === 0) return;
    const rows = (await this.#run("leasedBy", [...this.#lostClaims.keys()])) as RowReply[];
    const claimed = rows.map(toClaimed);
    if (claimed.length > 0)
      await this.doSettle(claimed.map(({ claim, row }) => settlementOf(claim, row, { state: "released" })));
    // Redis may run a lost claim later than this call. Its leases end by themselves after their duration.
    for (const [name, until] of this.#lostClaims)
      if (until < performance.now()) this.#lostClaims.delete(name);
  }

  protected async doRenew(
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
  ): Promise<readonly string[]> {
    const args = claims.flatMap((claim) => [recordOf(claim), toText(claim.eventId), claim.lease]);
    return (await this.#run("renew", [String(leaseDuration), ...args])) as string[];
  }

  protected async doSettle(settlements: readonly Settlement<never>[]): Promise<readonly Settled[]> {
    const settled = (await this.#run("settle", settlements.flatMap(settleArgs))) as [Num, Num][];
    return settled.map(([held, more]) => ({ held: Number(held) === 1, more: Number(more) === 1 }));
  }

  protected async doNextDue(): Promise<Timed<number | undefined>> {
    const [now, next] = (await this.#run("nextDue")) as [Num, Num | null];
    return { now: Number(now), result: toNumber(next) };
  }

  protected async doSetBack(): Promise<void> {
    for (const state of ["processing", "pending", "retrying", "scheduled"]) {
      let after: number | undefined = 0;
      while (after !== undefined)
        after = toNumber(await this.#run("setBack", [state, String(after), String(PAGE)]));
    }
  }

  protected async doRemove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    return Number(await this.#run("remove", [toText(ref), ...removeArgs(what)]));
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = (await this.#run("get", [toText(eventId)])) as RowReply | null;
    return row === null ? undefined : toStoredEvent(row);
  }

  protected async doList(filter: EventFilter, slice: Slice): Promise<Sliced<StoredEvent[]>> {
    const [rows, next] = (await this.#run("list", lookArgs(filter, slice))) as [RowReply[], Num | null];
    return { found: rows.map(toStoredEvent), next: toNumber(next) };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return toNumber(await this.#run("arrival", [toText(eventId)]));
  }

  protected async doChange(
    change: Change,
    filter: EventFilter,
    states: readonly EventState[],
    { before }: Slice,
  ): Promise<Sliced<number>> {
    const args = [change, states.join(), ...lookArgs(filter, { before, limit: PAGE })];
    const [changed, next] = (await this.#run("change", args)) as [Num, Num | null];
    return { found: Number(changed), next: toNumber(next) };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const counts = ((await this.#run("counts")) as Num[]).map(Number);
    const [scheduled = 0, pending = 0, processing = 0, retrying = 0, done = 0, parked = 0] = counts;
    return { scheduled, pending, processing, retrying, done, parked };
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    return toNumber(await this.#run("oldestWaiting"));
  }

  protected async doLastReceivedAt(): Promise<number | undefined> {
    return toNumber(await this.#run("lastReceivedAt"));
  }

  protected async doErase(ref: string): Promise<number | undefined> {
    const erased = Number(await this.#run("erase", [toText(ref)]));
    return erased < 0 ? undefined : erased;
  }

  protected async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    const packed = (await this.#run("snapshotOf", [toText(ref)])) as string | null;
    return packed === null ? undefined : toRecordSnapshot(ref, packed);
  }

  protected async doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    const args = [toText(after ?? ""), String(limit)];
    const [refs, packed] = (await this.#run("snapshots", args)) as [string[], string[]];
    return refs.map((ref, index) => toRecordSnapshot(fromText(ref), packed[index]!));
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    return Number(await this.#run("learn", [toText(ref), packSnapshot(snapshot)])) === 1;
  }

  protected async doGetMeta(key: string): Promise<{ value: string; age: number } | undefined> {
    const kept = (await this.#run("getMeta", [key])) as [string, Num] | null;
    return kept === null ? undefined : { value: kept[0], age: Number(kept[1]) };
  }

  protected async doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    const pack = (text: string | undefined) => (text === undefined ? "" : `+${text}`);
    return Number(await this.#run("setMeta", [key, pack(value), pack(expected)])) === 1;
  }

  protected async doPrune({ state, reason, age, limit }: PruneOptions): Promise<number> {
    return inPages(limit, age, (size) =>
      this.#run("prune", [state, reason ?? "", String(age), String(size)]),
    );
  }

  protected async doPruneSnapshots({ age, limit }: PruneSnapshotsOptions): Promise<number> {
    return inPages(limit, age, (size, skipped) =>
      this.#run("pruneSnapshots", [String(age), String(skipped), String(size)]),
    );
  }

  protected async doRestore(
    events: readonly StoredEvent[],
    snapshots: readonly RecordSnapshot[],
  ): Promise<void> {
    const records = snapshots.flatMap(({ ref, sequence, seenAt, snapshot }) => [
      ...[toText(ref), String(sequence), String(seenAt.getTime()), packSnapshot(snapshot)],
    ]);
    await this.#run("restore", [String(snapshots.length), ...records, ...events.flatMap(restoreArgs)]);
  }

  protected async doClose(): Promise<void> {
    this.#notifier.close();
    await this.#connection.idle();
    this.#connection.close();
  }

  #run(name: ScriptName, args: readonly string[] = []): Promise<unknown> {
    return this.#connection.busy(() => this.#evaluate(name, args));
  }

  async #evaluate(name: ScriptName, args: readonly string[]): Promise<unknown> {
    await this.#start();
    try {
      return await this.#connection.run(name, [String(this.#now?.() ?? ""), this.#handle, ...args]);
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

  /** Resolves to the prefix of all keys, which begins with the `keyPrefix` of a user's client. */
  #start(): Promise<string> {
    this.#started ??= this.#open().catch((error) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  async #open(): Promise<string> {
    const args = ["", this.#handle, String(SCHEMA)];
    const [keys, schema] = (await this.#connection.run("start", args)) as [string, Num];
    if (Number(schema) < SCHEMA) {
      throw new StayhookError(
        `redisStore (${this.#connection.name}): an older version of stayhook wrote the keys ${keys}:*, and this version cannot read them. Set the option prefix to another value, or delete the keys.`,
      );
    }
    this.#life = this.#connection.connections;
    this.#onFirstUse();
    return keys;
  }
}

/** The arguments of the Lua function `look` in `redis-upkeep-scripts.ts`. */
function lookArgs(filter: EventFilter, { before, limit }: Slice): string[] {
  const { eventId, ref, state, ...rest } = filter;
  const isPicky = Object.values(rest).some((value) => value !== undefined);
  // The fields in `rest` have no index, so the script may read many events that do not match. Let it read a full page.
  const size = isPicky ? PAGE : Math.min(PAGE, Math.max(1, Math.ceil(limit)));
  const fields = Object.entries(filter)
    .filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => [name, packFilter(name, value)]);
  return [String(before ?? ""), String(size), String(limit), ...fields];
}

function packFilter(name: string, value: string | Date): string {
  if (value instanceof Date) return String(value.getTime());
  return name === "type" ? packText(value) : toText(value);
}

/**
 * Calls `run` page by page, until the total reaches `limit` or a page is not full. `run` answers how many rows it
 * deleted and how many it read, and gets how many rows it has read and not deleted. Returns the total.
 */
async function inPages(
  limit: number,
  age: number,
  run: (size: number, skipped: number) => Promise<unknown>,
): Promise<number> {
  let [total, skipped] = [0, 0];
  while (total < limit && age !== Number.POSITIVE_INFINITY) {
    const size = Math.min(limit - total, PAGE);
    const [deleted, read] = ((await run(size, skipped)) as Num[]).map(Number) as [number, number];
    total += deleted;
    skipped += read - deleted;
    if (read < size) break;
  }
  return total;
}

function toNumber(reply: unknown): number | undefined {
  return reply === null ? undefined : Number(reply);
}

function newName(): string {
  return randomBytes(12).toString("base64url");
}
