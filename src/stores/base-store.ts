import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { CallGroup } from "./call-group.ts";
import { checkedFilter, type EventFilter, type RowFilter } from "./event-filter.ts";
import { type Change, type EventState, statesOf } from "./event-states.ts";
import type {
  AddOptions,
  ClaimOptions,
  EventStore,
  ListOptions,
  Outcome,
  PruneOptions,
  PruneSnapshotsOptions,
} from "./event-store.ts";
import { isFiring, rowIdOf, withFiringId, withRowId } from "./firing-id.ts";
import {
  type Addition,
  additionOf,
  type ClaimedRow,
  copyOfSnapshot,
  type Settlement,
  settlementOf,
} from "./outcomes.ts";
import type { RecordSnapshot, Snapshot } from "./snapshot.ts";
import { SET_BACK, StoreClock } from "./store-clock.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";
import { Subscribers } from "./subscribers.ts";

/** The maximum number of events that one step of `replay` or `discard` changes. Longer steps delay notifications. */
const CHANGE_BATCH = 500;
const SNAPSHOTS_PAGE = 500;

/** The answer of {@link EventStore.add}. */
export type AddAnswer = Awaited<ReturnType<EventStore["add"]>>;

/** Selects a part of the events. The events are sorted from newest to oldest. */
export interface Slice {
  /** Only events with an arrival number below `before`. If `undefined`, the slice starts at the newest event. */
  readonly before: number | undefined;
  /** The maximum number of events to return or change. */
  readonly limit: number;
}

/** The result of a method that reads or changes one {@link Slice}. */
export interface Sliced<T> {
  readonly found: T;
  /** The value of `before` for the next slice. It is `undefined` after the last slice. */
  readonly next: number | undefined;
}

/** A claimed event, and what the end of its attempt adds to. */
export interface Claimed {
  readonly claim: ClaimedEvent;
  readonly row: ClaimedRow;
}

/** What a settlement did. */
export interface Settled {
  /** Whether the claim's lease ended the attempt. */
  readonly held: boolean;
  /** Whether the record has more events that are due now or later. */
  readonly more: boolean;
}

/** One call of `claim`, as a store makes it. */
export interface ClaimCall extends ClaimOptions {
  /** The tokens of the call's leases are `<token>:0`, `<token>:1` and so on. */
  readonly token: string;
  /** The claims that the call is about to commit. The store sets them before the step whose answer may be lost. */
  claimed: readonly Claimed[];
}

/** A result with the store's clock, epoch ms, read while the call ran. */
export interface Timed<T> {
  readonly now: number;
  readonly result: T;
}

/** The claims whose rows a store remembers. More leases than these are hardly held at once. */
const CLAIMS = 10_000;
/** The key of the meta value that keeps `lastReceivedAt` when the last webhook event is deleted. */
const LAST_RECEIVED = "stayhook:last-received";

/**
 * What all stores do alike: checks of arguments, calls that share a statement, what an attempt does to its event, the
 * rule for a clock that is set back, pages and batches, `lastReceivedAt`, and subscribers. A store implements the
 * protected methods, which get only checked values, and write down what they get.
 *
 * Each event has an **arrival number**, which is higher than the numbers of all earlier events.
 *
 * A timer has one row, whose id has no time. The public methods take and give the ids of its firings, which do.
 */
export abstract class BaseStore<Tx = never> implements EventStore<Tx> {
  protected readonly subscribers = new Subscribers();
  readonly #adds = new CallGroup<Addition, AddAnswer>(
    ({ event }) => event.eventId,
    (additions) => this.#add(additions),
  );
  readonly #settles = new CallGroup<Settlement<Tx>, Settled>(
    ({ claim }) => claim.ref ?? claim.eventId,
    (settlements) => this.doSettle(settlements),
  );
  readonly #renewals = new CallGroup<Renewal, boolean>(
    ({ claim }) => claim.lease,
    (renewals) => this.#renew(renewals),
  );
  readonly #rows = new Map<string, ClaimedRow>();
  /** The claims that got no answer. The store may have made them. */
  readonly #lost = new Set<ClaimCall>();
  /** Begins the tokens of this handle's additions. Made with the first one, because a Worker's start has no random values. */
  #name: string | undefined;
  #added = 0;
  readonly #clock = new StoreClock();
  #isFirstRead = true;
  #isWaking = false;
  #closing: Promise<void> | undefined;

  /**
   * Records events, each in one atomic step with the due time of its record. The additions of a call have different ids,
   * and may have equal records. The answers have the order of the additions.
   */
  protected abstract doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]>;
  protected abstract doClaim(call: ClaimCall): Promise<Timed<readonly Claimed[]>>;
  /** Returns the tokens of the leases that are still held. */
  protected abstract doRenew(
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
  ): Promise<readonly string[]>;
  /**
   * Ends attempts, each in one atomic step. The settlements of a call have different records. A settlement with `writes`
   * comes alone.
   */
  protected abstract doSettle(settlements: readonly Settlement<Tx>[]): Promise<readonly Settled[]>;
  protected abstract doNextDue(): Promise<Timed<number | undefined>>;
  /**
   * Repairs the times after the store's clock was set back: pending and retrying events and rechecks become due now,
   * and no lease ends later than its duration from now.
   */
  protected abstract doSetBack(): Promise<void>;
  protected abstract doRemove(ref: string, what: readonly string[] | "timers"): Promise<number>;
  protected abstract doGet(eventId: string): Promise<StoredEvent | undefined>;
  /** Returns events that match `filter`. A result with fewer than `limit` events may still have a `next`. */
  protected abstract doList(filter: RowFilter, slice: Slice): Promise<Sliced<StoredEvent[]>>;
  /** Returns the arrival number of an event, or `undefined` if the store does not have the event. */
  protected abstract arrivalOf(eventId: string): Promise<number | undefined>;
  /**
   * Changes events that match `filter` and are in one of `states`, but each event at most once. `found` is the number
   * of changed events.
   */
  protected abstract doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    slice: Slice,
  ): Promise<Sliced<number>>;
  protected abstract doCounts(): Promise<Record<EventState, number>>;
  protected abstract doOldestWaiting(): Promise<number | undefined>;
  protected abstract doScheduledDue(): Promise<number>;
  /** Returns when the newest webhook event that is still there was recorded, epoch ms. */
  protected abstract doLastReceivedAt(): Promise<number | undefined>;
  /**
   * @returns the number of deleted events. If an event of the record is being processed, deletes nothing and returns
   * `undefined`
   */
  protected abstract doErase(ref: string): Promise<number | undefined>;
  protected abstract doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined>;
  /** Returns snapshots whose `ref` follows `after`. A result with fewer than `limit` is the last page. */
  protected abstract doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]>;
  protected abstract doLearn(ref: string, snapshot: Snapshot): Promise<boolean>;
  protected abstract doGetMeta(
    key: string,
  ): Promise<{ readonly value: string; readonly age: number } | undefined>;
  protected abstract doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean>;
  protected abstract doPrune(options: PruneOptions): Promise<number>;
  protected abstract doPruneSnapshots(options: PruneSnapshotsOptions): Promise<number>;
  protected abstract doRestore(
    events: readonly StoredEvent[],
    snapshots: readonly RecordSnapshot[],
  ): Promise<void>;
  protected abstract doClose(): Promise<void>;

  async add(event: NewEvent, options?: AddOptions): Promise<AddAnswer> {
    this.assertOpen();
    checkNoUnknown(options, ["dueIn", "replace"]);
    this.#added += 1;
    this.#name ??= crypto.randomUUID().slice(0, 9);
    const answer = await this.#adds.call(additionOf(event, options, this.#name + this.#added.toString(36)));
    if (answer === "added") this.#woke();
    return answer;
  }

  async #add(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    try {
      return await this.doAdd(additions);
    } catch (error) {
      // Only the answer may have been lost. The repeated call then finds a duplicate, and would wake nobody.
      this.#woke();
      throw error;
    }
  }

  async claim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    this.assertOpen();
    checkNoUnknown(options, ["limit", "leaseDuration", "worker", "eventId", "newestFirst"]);
    if (!(options.limit > 0)) return [];
    // A lease of 0 ms would end at once, and the same claim would lease the event again. So use at least 1 ms.
    const leaseDuration = Math.max(1, Math.ceil(options.leaseDuration));
    const checked = { ...options, limit: Math.ceil(options.limit), leaseDuration };
    if (options.eventId !== undefined) {
      if (!(await this.#isCurrent(options.eventId))) return [];
      checked.eventId = rowIdOf(options.eventId).eventId;
    }
    const claimed = await this.#timed(
      () => this.#claim(checked),
      (claims) => claims.length > 0,
    );
    for (const { claim, row } of claimed) this.#remember(claim.lease, row);
    return claimed.map(({ claim }) => withFiringId(claim));
  }

  async #claim(options: ClaimOptions): Promise<Timed<readonly Claimed[]>> {
    await this.#giveBack();
    const call: ClaimCall = { ...options, token: crypto.randomUUID().slice(9), claimed: [] };
    try {
      return await this.doClaim(call);
    } catch (error) {
      this.#lost.add(call);
      throw error;
    }
  }

  /**
   * Releases the events of claims that got no answer. No process got these events, so the attempts do not count. A claim
   * that has not ended yet holds the locks of its records, so that the release comes after it.
   */
  async #giveBack(): Promise<void> {
    if (this.#lost.size === 0) return;
    const lost = [...this.#lost];
    const claims = await this.doFindLost(lost);
    await Promise.all(
      claims.map(({ claim, row }) => this.#settles.call(settlementOf<Tx>(claim, row, { state: "released" }))),
    );
    for (const call of lost) this.#lost.delete(call);
  }

  /**
   * Returns the claims of calls that got no answer. A store that cannot know them before the answer must read them, and
   * must see to it that a call that arrives later claims nothing.
   */
  protected async doFindLost(calls: readonly ClaimCall[]): Promise<readonly Claimed[]> {
    return calls.flatMap(({ claimed }) => claimed);
  }

  async renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.assertOpen();
    const duration = Math.max(1, Math.ceil(leaseDuration));
    const held = await Promise.all(
      claims.map((claim) => this.#renewals.call({ claim: withRowId(claim), duration })),
    );
    return claims.filter((_, index) => held[index]);
  }

  /** Renewals of one handler have the same duration, so that they share a statement. */
  async #renew(renewals: readonly Renewal[]): Promise<boolean[]> {
    const held = new Set<string>();
    for (const duration of new Set(renewals.map((renewal) => renewal.duration))) {
      const same = renewals.filter((renewal) => renewal.duration === duration);
      const claims = same.map(({ claim }) => claim);
      for (const lease of await this.doRenew(claims, duration)) held.add(lease);
    }
    return renewals.map(({ claim }) => held.has(claim.lease));
  }

  async settle(given: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean> {
    this.assertOpen();
    const claim = withRowId(given);
    const row = this.#rows.get(claim.lease) ?? (await this.#rowOf(claim));
    if (row === undefined) return false;
    const settlement = settlementOf({ ...claim }, row, outcome);
    const { held, more } =
      settlement.writes.length > 0
        ? (await this.doSettle([settlement]))[0]!
        : await this.#settles.call(settlement);
    this.#rows.delete(claim.lease);
    if (held && (more || settlement.additions.length > 0)) this.#woke();
    return held;
  }

  async nextDue(): Promise<number | undefined> {
    this.assertOpen();
    await this.#giveBack();
    return this.#timed(
      () => this.doNextDue(),
      (next) => next === 0,
    );
  }

  async remove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    this.assertOpen();
    checkRef(ref);
    if (what === "timers") return this.doRemove(ref, what);
    const current = await Promise.all(what.map((eventId) => this.#isCurrent(eventId)));
    const rows = what.filter((_, index) => current[index]).map((eventId) => rowIdOf(eventId).eventId);
    return rows.length === 0 ? 0 : this.doRemove(ref, rows);
  }

  async list({ limit: asked, after, ...given }: ListOptions): Promise<StoredEvent[]> {
    this.assertOpen();
    const filter = checkedFilter(given);
    const limit = Math.ceil(asked);
    const events: StoredEvent[] = [];
    let before = after === undefined ? undefined : await this.arrivalOf(rowIdOf(after).eventId);
    if (after !== undefined && before === undefined) return [];
    while (events.length < limit) {
      const { found, next } = await this.doList(filter, { before, limit: limit - events.length });
      events.push(...found.map(withFiringId));
      if (next === undefined) break;
      before = next;
    }
    return events;
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    this.assertOpen();
    const row = rowIdOf(eventId);
    const event = await this.doGet(row.eventId);
    return event && isFiring(event, row.timestamp) ? withFiringId(event) : undefined;
  }

  /** Whether the id is no firing of a timer, or the last firing that was set. */
  async #isCurrent(eventId: string): Promise<boolean> {
    return rowIdOf(eventId).timestamp === undefined || (await this.get(eventId)) !== undefined;
  }

  async counts(): Promise<Record<EventState, number>> {
    this.assertOpen();
    return this.doCounts();
  }

  async oldestWaiting(): Promise<number | undefined> {
    this.assertOpen();
    return this.doOldestWaiting();
  }

  async scheduledDue(): Promise<number> {
    this.assertOpen();
    return this.doScheduledDue();
  }

  async lastReceivedAt(): Promise<Date | undefined> {
    this.assertOpen();
    const times = await Promise.all([this.doLastReceivedAt(), this.doGetMeta(LAST_RECEIVED)]);
    const [newest = 0, kept = 0] = [times[0], times[1] && Number(times[1].value)];
    return newest || kept ? new Date(Math.max(newest, kept)) : undefined;
  }

  replay(filter: EventFilter): Promise<number> {
    return this.#change("replay", filter);
  }

  discard(filter: EventFilter): Promise<number> {
    return this.#change("discard", filter);
  }

  async erase(ref: string): Promise<number> {
    this.assertOpen();
    checkRef(ref);
    await this.#keepLastReceived();
    const erased = await this.doErase(ref);
    if (erased !== undefined) return erased;
    throw new StayhookError(
      `An event of ${ref} is being processed, so nothing of ${ref} was erased. Try again when the attempt has ended.`,
    );
  }

  async snapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    this.assertOpen();
    return this.doSnapshotOf(ref);
  }

  async *snapshots(options: { readonly after?: string | undefined } = {}): AsyncGenerator<RecordSnapshot> {
    checkNoUnknown(options, ["after"]);
    let last = options.after;
    for (;;) {
      this.assertOpen();
      const page = await this.doSnapshots(last, SNAPSHOTS_PAGE);
      yield* page;
      if (page.length < SNAPSHOTS_PAGE) return;
      last = page.at(-1)!.ref;
    }
  }

  async learn(ref: string, snapshot: Snapshot): Promise<boolean> {
    this.assertOpen();
    return this.doLearn(ref, copyOfSnapshot(snapshot));
  }

  async getMeta(key: string): Promise<{ readonly value: string; readonly age: number } | undefined> {
    this.assertOpen();
    return this.doGetMeta(key);
  }

  async setMeta(
    key: string,
    value: string | undefined,
    options: { readonly expected: string | undefined },
  ): Promise<boolean> {
    this.assertOpen();
    checkNoUnknown(options, ["expected"]);
    return this.doSetMeta(key, value, options.expected);
  }

  async prune(options: PruneOptions): Promise<number> {
    this.assertOpen();
    checkNoUnknown(options, ["state", "reason", "age", "limit"]);
    if (options.state !== "done" && options.state !== "parked")
      throw new InvalidArgumentError({ path: ["state"], message: 'must be "done" or "parked"' });
    // No done event has a failure reason, so nothing matches.
    if (options.limit <= 0 || (options.state === "done" && options.reason !== undefined)) return 0;
    await this.#keepLastReceived();
    return this.doPrune({ ...options, limit: Math.ceil(options.limit) });
  }

  async pruneSnapshots(options: PruneSnapshotsOptions): Promise<number> {
    this.assertOpen();
    checkNoUnknown(options, ["age", "limit"]);
    return options.limit <= 0 ? 0 : this.doPruneSnapshots({ ...options, limit: Math.ceil(options.limit) });
  }

  async restore(batch: {
    readonly events: readonly StoredEvent[];
    readonly snapshots: readonly RecordSnapshot[];
  }): Promise<void> {
    this.assertOpen();
    const issues = batch.events.flatMap(({ eventId, state }, index) =>
      state === "processing"
        ? [
            {
              path: ["events", index],
              message: `event ${eventId} is processing. Restore it when its attempt has ended`,
            },
          ]
        : [],
    );
    if (issues.length > 0) throw new InvalidArgumentError(issues);
    await this.doRestore(batch.events.map(withRowId), batch.snapshots);
    this.#woke();
  }

  subscribe(wake: () => void): () => void {
    this.assertOpen();
    const unsubscribe = this.subscribers.add(wake);
    return () => void unsubscribe();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close().finally(() => this.subscribers.clear());
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Calls that wait for their statement were made before `close`, so let them end first. */
  async #close(): Promise<void> {
    await Promise.all([this.#adds.idle(), this.#settles.idle(), this.#renewals.idle()]);
    await this.doClose();
  }

  protected get closed(): boolean {
    return this.#closing !== undefined;
  }

  protected assertOpen(): void {
    if (this.closed) {
      throw new StayhookError(
        "The event store is closed. Close the server, the reconciler and the webhook handler before the store.",
      );
    }
  }

  /** Tells other processes that an event may be due. It must not throw. Only stores with a notifier implement it. */
  protected notify?(): void;

  /** Wakes the subscribers once for all events that one turn made due. */
  #woke(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    queueMicrotask(() => {
      this.#isWaking = false;
      if (this.closed) return;
      this.subscribers.wake();
      this.notify?.();
    });
  }

  /**
   * Runs a call that follows the store's clock. If the clock was set back, repairs the times. Then runs the call again,
   * unless its result `found` work already.
   */
  async #timed<T>(run: () => Promise<Timed<T>>, found: (result: T) => boolean): Promise<T> {
    const sentAt = performance.now();
    const { now, result } = await run();
    let isBehind: boolean;
    try {
      isBehind = await this.#followClock(now, sentAt);
    } catch (error) {
      // Nobody else can handle claimed events before their leases end. The next call looks at the clock again.
      if (found(result)) return result;
      throw error;
    }
    return isBehind && !found(result) ? (await run()).result : result;
  }

  /** @returns whether the clock was set back, so that times were repaired */
  async #followClock(now: number, sentAt: number): Promise<boolean> {
    const isBehind = this.#isFirstRead
      ? now < (await this.#newestReceivedAt()) - SET_BACK
      : this.#clock.isBehind(now, sentAt);
    if (isBehind) await this.doSetBack();
    this.#isFirstRead = false;
    this.#clock.read(now);
    return isBehind;
  }

  /** Returns when the newest event of any source was recorded, as far as the store knows it, epoch ms. */
  async #newestReceivedAt(): Promise<number> {
    const newest = this.doList({}, { before: undefined, limit: 1 });
    const [notified, { found }] = await Promise.all([this.lastReceivedAt(), newest]);
    return Math.max(notified?.getTime() ?? 0, found[0]?.receivedAt.getTime() ?? 0);
  }

  #remember(lease: string, row: ClaimedRow): void {
    if (this.#rows.size >= CLAIMS) this.#rows.delete(this.#rows.keys().next().value!);
    this.#rows.set(lease, row);
  }

  /** Reads the row of a claim that another handle of this store made. */
  async #rowOf({ eventId }: ClaimedEvent): Promise<ClaimedRow | undefined> {
    const event = await this.doGet(eventId);
    return event && { history: event.history, worker: undefined };
  }

  /** Notes when the last webhook event was recorded, because the caller may delete this event. */
  async #keepLastReceived(): Promise<void> {
    const newest = await this.doLastReceivedAt();
    if (newest !== undefined) await keepLastReceived(this, newest);
  }

  async #change(change: Change, given: EventFilter): Promise<number> {
    this.assertOpen();
    const filter = checkedFilter(given);
    if (Object.values(filter).every((value) => value === undefined)) {
      throw new InvalidArgumentError({
        path: [],
        message: `${change} requires a filter with at least one field, such as { state: "parked" }`,
      });
    }
    const states = statesOf(change, filter);
    let changed = 0;
    let before: number | undefined;
    do {
      this.assertOpen();
      const { found, next } = await this.doChange(change, filter, states, { before, limit: CHANGE_BATCH });
      changed += found;
      before = next;
    } while (before !== undefined);
    if (changed > 0) this.#woke();
    return changed;
  }
}

/** Writes the time of the last notification, so that it stays known without its event. */
export async function keepLastReceived(store: EventStore<unknown>, receivedAt: number): Promise<void> {
  const kept = await store.getMeta(LAST_RECEIVED);
  if (receivedAt > Number(kept?.value ?? 0))
    await store.setMeta(LAST_RECEIVED, String(receivedAt), { expected: kept?.value });
}

interface Renewal {
  readonly claim: ClaimedEvent;
  readonly duration: number;
}

function checkRef(ref: unknown): void {
  if (typeof ref !== "string" || ref === "")
    throw new InvalidArgumentError({ path: ["ref"], message: "must be a text such as booking:HX3K9" });
}

export function isSameSnapshot(a: Snapshot, b: Snapshot): boolean {
  const names = Object.keys(a.fields);
  return (
    a.status === b.status &&
    a.known === b.known &&
    names.length === Object.keys(b.fields).length &&
    names.every((name) => Object.hasOwn(b.fields, name) && a.fields[name] === b.fields[name])
  );
}
