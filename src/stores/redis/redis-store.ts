import { randomBytes } from "node:crypto";
// Use an imported timer: a test's fake timers replace the globals, and would stop the store.
import { setImmediate } from "node:timers/promises";
import { StayhookError } from "../../errors.ts";
import { type AddAnswer, BaseStore, type Slice, type Sliced } from "../base-store.ts";
import type { Change, EventState } from "../event-states.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { hasCode, NotSentError } from "./redis-client.ts";
import { type Connection, IdempotencyKeys, Notifier } from "./redis-connection.ts";
import {
  type ClaimReply,
  packEntry,
  packSnapshot,
  type RowReply,
  toClaim,
  toRecordSnapshot,
  toStoredEvent,
} from "./redis-rows.ts";
import type { ScriptName } from "./redis-scripts.ts";

/** The maximum number of events that one script handles. While a script runs, Redis runs no other command. */
const PAGE = 200;
/** A script adds no further event after its notifications have reached this length, in characters. */
const MOST_TEXT = 1_000_000;
/** The version of the key layout. Newer layouts only add keys or fields, so this version of stayhook can use them. */
const SCHEMA = 1;

/** Events that one script adds. */
interface Batch {
  readonly args: string[];
  events: number;
  /** The length of the notifications, in characters. */
  text: number;
  /** The answer for each event. */
  readonly answers: Promise<readonly AddAnswer[]>;
}

/**
 * Runs Lua scripts. Redis never interrupts a script, so other clients see all of its writes or none. `redis-locks.ts`
 * lists the keys.
 */
export class RedisStore extends BaseStore {
  readonly #connection: Connection;
  readonly #notifier: Notifier;
  readonly #keys = new IdempotencyKeys();
  /** A clock for tests. If it is `undefined`, scripts use the clock of Redis. */
  readonly #now: (() => number) | undefined;
  readonly #onFirstUse: () => void;
  /** Identifies this store instance in the messages that it publishes. */
  #handle = newName();
  #started: Promise<string> | undefined;
  /** The batch that further calls of `add` join. */
  #batch: Batch | undefined;
  /** The value of `link.life` when the script `start` last succeeded. */
  #life = 0;

  constructor(connection: Connection, onFirstUse: () => void = () => {}, now?: () => number) {
    super();
    this.#connection = connection;
    this.#onFirstUse = onFirstUse;
    this.#now = now;
    this.#notifier = new Notifier(connection.link, {
      channel: async () => `${await this.#start()}:wake`,
      isOurs: (handle) => handle === this.#handle,
      wake: () => this.subscribers.wake(),
    });
  }

  override subscribe(wake: () => void): () => void {
    const unsubscribe = super.subscribe(wake);
    this.#notifier.listen();
    return unsubscribe;
  }

  protected async doAdd(event: NewEvent, dueIn: number | undefined): Promise<AddAnswer> {
    const args = addArgs(event, dueIn);
    const batch = this.#batch ?? this.#openBatch();
    const index = batch.events;
    batch.args.push(...args);
    batch.events += 1;
    batch.text += event.notification?.length ?? 0;
    if (batch.events >= PAGE || batch.text >= MOST_TEXT) this.#batch = undefined;
    return (await batch.answers)[index]!;
  }

  protected async doClaim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    const claims: ClaimedEvent[] = [];
    for (;;) {
      const limit = Math.min(options.limit - claims.length, PAGE);
      const page = await this.#claim(options, limit).catch((error) => {
        // Return the events that are already leased, even if the next page fails.
        if (claims.length === 0) throw error;
        return [];
      });
      claims.push(...page);
      if (page.length < PAGE || claims.length >= options.limit) return claims;
    }
  }

  protected async doRenew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    const renewed: ClaimedEvent[] = [];
    for (let from = 0; from < claims.length; from += PAGE) {
      const page = claims.slice(from, from + PAGE);
      const args = page.flatMap(({ eventId, lease }) => [eventId, lease]);
      const held = (await this.#change("renew", [leaseMs(leaseDuration), ...args])) as (number | string)[];
      renewed.push(...held.map((index) => page[Number(index)]!));
    }
    return renewed;
  }

  protected async doSettle(claim: ClaimedEvent, outcome: Outcome): Promise<boolean> {
    const { eventId, lease } = claim;
    const ending = settleArgs(outcome);
    // Leave the history entry out of the key, because a repeated call of `settle` may contain another duration.
    const key = this.#keys.keyOf(lease, ending.toSpliced(ENTRY, 1).join(" "));
    const settled = Number(await this.#change("settle", [eventId, lease, key, ...ending])) === 1;
    this.#keys.answered(lease);
    return settled;
  }

  protected async doNextDue(): Promise<number | undefined> {
    return toNumber(await this.#run("nextDue"));
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    const row = (await this.#run("get", [eventId])) as RowReply | null;
    return row === null ? undefined : toStoredEvent(row);
  }

  protected async doList(filter: EventFilter, slice: Slice): Promise<Sliced<StoredEvent[]>> {
    const [rows, next] = (await this.#run("list", lookArgs(filter, slice))) as [RowReply[], number | null];
    return { found: rows.map(toStoredEvent), next: toNumber(next) };
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return toNumber(await this.#run("arrival", [eventId]));
  }

  protected async doChange(change: Change, filter: EventFilter, slice: Slice): Promise<Sliced<number>> {
    const args = [change, ...lookArgs(filter, { ...slice, limit: PAGE })];
    const [changed, next] = (await this.#change("change", args)) as [number | string, number | null];
    return { found: Number(changed), next: toNumber(next) };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    const counts = ((await this.#run("counts")) as (number | string)[]).map(Number);
    const [pending, processing, retrying, done, parked] = counts as [number, number, number, number, number];
    return { pending, processing, retrying, done, parked };
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    return toNumber(await this.#run("oldestWaiting"));
  }

  protected async doNewestReceived(): Promise<Date | undefined> {
    const newest = toNumber(await this.#run("newestReceived"));
    return newest === undefined ? undefined : new Date(newest);
  }

  protected async doErase(ref: string): Promise<number | undefined> {
    const erased = Number(await this.#change("erase", [ref]));
    return erased < 0 ? undefined : erased;
  }

  protected async doRecordOf(ref: string): Promise<RecordSnapshot | undefined> {
    const packed = (await this.#run("recordOf", [ref])) as string | null;
    return packed === null ? undefined : toRecordSnapshot(ref, packed);
  }

  protected async doRecords(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    const args = [after ?? "", String(limit)];
    const [refs, packed] = (await this.#run("records", args)) as [string[], string[]];
    return refs.map((ref, index) => toRecordSnapshot(ref, packed[index]!));
  }

  protected async doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    return Number(await this.#change("learn", [ref, packSnapshot(snapshot)])) === 1;
  }

  protected async doGetMeta(key: string): Promise<{ value: string; age: number } | undefined> {
    const kept = (await this.#run("getMeta", [key])) as [string, number | string] | null;
    return kept === null ? undefined : { value: kept[0], age: Number(kept[1]) };
  }

  protected async doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    const given = flags({ v: value !== undefined, e: expected !== undefined });
    return Number(await this.#change("setMeta", [key, given, value ?? "", expected ?? ""])) === 1;
  }

  protected async doPrune({ state, reason, age, limit }: PruneOptions): Promise<number> {
    // A done event has no failure reason, so no event matches.
    if ((state === "done" && reason !== undefined) || age === Number.POSITIVE_INFINITY) return 0;
    return inPages(limit, async (size) =>
      Number(await this.#change("prune", [state, reason ?? "", String(age), String(size)])),
    );
  }

  protected async doPruneRecords({ age, limit }: PruneRecordsOptions): Promise<number> {
    if (age === Number.POSITIVE_INFINITY) return 0;
    return inPages(limit, async (size) =>
      Number(await this.#change("pruneRecords", [String(age), String(size)])),
    );
  }

  protected async doClose(): Promise<void> {
    this.#notifier.close();
    await this.#connection.idle();
    this.#connection.close();
  }

  async #claim(options: ClaimOptions, limit: number): Promise<ClaimedEvent[]> {
    const { leaseDuration, eventId = "", order = "oldest", worker = "" } = options;
    const key = newName();
    const args = [String(limit), leaseMs(leaseDuration), key, order, worker, eventId];
    try {
      const reply = await this.#change("claim", [...args, ...this.#keys.lostClaims()]);
      const [now, claims] = reply as [number | string, ClaimReply[]];
      return claims.map((claim) => toClaim(claim, Number(now)));
    } catch (error) {
      if (!(error instanceof NotSentError)) this.#keys.claimLost(key, leaseDuration);
      throw error;
    }
  }

  /** Opens the batch for the next calls of `add`, and soon adds its events. */
  #openBatch(): Batch {
    const send = async (): Promise<readonly AddAnswer[]> => {
      // If another call of this store runs, let Node read its sockets first. Then events whose requests have already
      // arrived share the script. If no other call runs, send the batch at once.
      await (this.#connection.isBusy ? setImmediate() : undefined);
      if (this.#batch === batch) this.#batch = undefined;
      return (await this.#changed(this.#evaluate("add", batch.args))) as readonly AddAnswer[];
    };
    const batch: Batch = { args: [], events: 0, text: 0, answers: this.#connection.busy(send) };
    this.#batch = batch;
    return batch;
  }

  #change(name: ScriptName, args: readonly string[]): Promise<unknown> {
    return this.#changed(this.#run(name, args));
  }

  /** Resolves to the result of a script. If the script made an event due sooner, wakes the subscribers. */
  async #changed(running: Promise<unknown>): Promise<unknown> {
    try {
      const [result, dueSooner] = (await running) as [unknown, number | string];
      if (Number(dueSooner) === 1) this.subscribers.wake();
      return result;
    } catch (error) {
      if (!(error instanceof NotSentError)) {
        // Redis may have run the script already, so wake the subscribers now. Redis may also run the script later,
        // and publish a message with the old handle. With a new `#handle`, this instance does not ignore that
        // message.
        this.#handle = newName();
        this.subscribers.wake();
      }
      throw error;
    }
  }

  async #run(name: ScriptName, args: readonly string[] = []): Promise<unknown> {
    this.assertOpen();
    return this.#connection.busy(() => this.#evaluate(name, args));
  }

  async #evaluate(name: ScriptName, args: readonly string[]): Promise<unknown> {
    await this.#start();
    try {
      return await this.#connection.run(name, [String(this.#now?.() ?? ""), this.#handle, ...args]);
    } catch (error) {
      // After a reconnect, the server may have restarted without its data. Let the next call run `start` again.
      if (hasCode((error as Error).cause, "NOMETA") && this.#life !== this.#connection.link.life) {
        this.#started = undefined;
      }
      throw error;
    }
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
    const [, keys, isOld] = (await this.#connection.run("start", args)) as [string, string, number | string];
    if (Number(isOld) === 1) {
      throw new StayhookError(
        `redisStore (${this.#connection.link.name}): stayhook 0.1 wrote the keys ${keys}:*, and this version of stayhook cannot read them. Set the option prefix to another value, or delete the keys.`,
      );
    }
    this.#life = this.#connection.link.life;
    this.#onFirstUse();
    return keys;
  }
}

/** The arguments of the script `add` for one event. */
function addArgs(event: NewEvent, dueIn: number | undefined): string[] {
  const { eventId, ref, source, topic, timestamp, notification, traceparent } = event;
  const given = flags({
    r: ref !== null,
    t: topic !== null,
    n: notification !== null,
    p: typeof traceparent === "string",
    d: dueIn !== undefined,
  });
  const optional = [ref ?? "", topic ?? "", notification ?? "", traceparent ?? "", String(dueIn ?? "")];
  return [eventId, given, ...optional, source, timestamp];
}

/** The index of the history entry in the result of {@link settleArgs}. */
const ENTRY = 5;

function settleArgs(outcome: Outcome): string[] {
  if (outcome.state === "released") return [outcome.state, ""];
  const record = outcome.state === "done" ? outcome.record : undefined;
  const given = flags({
    t: outcome.type !== undefined,
    s: record !== undefined,
    c: record?.changed ?? false,
  });
  const args = [outcome.state, given, outcome.type ?? "", record ? packSnapshot(record.snapshot) : ""];
  const reason = outcome.state === "done" ? "" : outcome.reason;
  const wait = outcome.state === "retrying" ? [String(outcome.in), outcome.counted ? "1" : "0"] : [];
  return [...args, reason, packEntry(outcome), ...wait];
}

/** The arguments of the Lua function `look` in `redis-upkeep-scripts.ts`. */
function lookArgs(filter: EventFilter, { before, limit }: Slice): string[] {
  const { eventId, ref, state, ...rest } = filter;
  const isPicky = Object.values(rest).some((value) => value !== undefined);
  // The fields in `rest` have no index, so the script may read many events that do not match. Let it read a full page.
  const size = isPicky ? PAGE : Math.min(PAGE, Math.max(1, Math.ceil(limit)));
  const fields = Object.entries(filter)
    .filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => [name, value instanceof Date ? String(value.getTime()) : String(value)]);
  return [String(before ?? ""), String(size), String(limit), ...fields];
}

/** Joins the letters whose value is true. These letters tell a script which optional arguments are set. */
function flags(given: Readonly<Record<string, boolean>>): string {
  return Object.keys(given)
    .filter((letter) => given[letter])
    .join("");
}

/** Calls `run` page by page, until the total reaches `limit` or a page is not full. Returns the total. */
async function inPages(limit: number, run: (size: number) => Promise<number>): Promise<number> {
  for (let total = 0; ; ) {
    const size = Math.max(0, Math.min(limit - total, PAGE));
    if (size === 0) return total;
    const count = await run(size);
    total += count;
    if (count < size) return total;
  }
}

/** Returns at least 1 ms. A lease of 0 ms would end at once, and the same claim would lease the event again. */
function leaseMs(ms: number): string {
  return String(Math.max(1, Math.ceil(ms)));
}

function toNumber(reply: unknown): number | undefined {
  return reply === null ? undefined : Number(reply);
}

function newName(): string {
  return randomBytes(12).toString("base64url");
}
