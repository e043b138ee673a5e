import { checkAccount } from "../account.ts";
import { withTimeout } from "../async.ts";
import { clockOffset } from "../clock.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { checkedRestriction } from "./beginnings.ts";
import { NoAnswerError } from "./call-errors.ts";
import { CallGroup } from "./call-group.ts";
import { checkedChangeFilter, checkedFilter, type EventFilter } from "./event-filter.ts";
import { type Change, type EventState, statesOf } from "./event-states.ts";
import type {
  AddOptions,
  ClaimOptions,
  ErasedAccount,
  EventStore,
  ListOptions,
  NextDueOptions,
  Outcome,
  PruneOptions,
  PruneSnapshotsOptions,
} from "./event-store.ts";
import { isFiring, rowIdOf, withFiringId, withRowId } from "./firing-id.ts";
import { keepLastReceived, LAST_RECEIVED } from "./last-received.ts";
import { LostClaims } from "./lost-claims.ts";
import {
  type Addition,
  additionOf,
  type ClaimedRow,
  copyOfSnapshot,
  type Settlement,
  settlementOf,
} from "./outcomes.ts";
import { slices } from "./slices.ts";
import type { RecordSnapshot, Snapshot } from "./snapshot.ts";
import type { SqlNotifier } from "./sql/driver.ts";
import { StoreClock } from "./store-clock.ts";
import { type AddAnswer, type ClaimCall, type Settled, StoreSteps } from "./store-steps.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";
import { Subscribers } from "./subscribers.ts";

/** The maximum number of events that one step of `replay` or `discard` changes. Longer steps delay notifications. */
const CHANGE_BATCH = 500;
const SNAPSHOTS_PAGE = 500;

/** How long `close` waits for the calls that share a statement, ms. The network may be gone. */
const CALLS_WITHIN = 8000;
/** How long a store then waits for its own calls, ms. */
export const CLOSE_WITHIN = 2000;

/** How many claims' rows a store remembers. A process hardly holds more leases at once. */
const CLAIMS = 10_000;

/**
 * What all stores do alike: checks of arguments, calls that share a statement, what an attempt does to its event, claims
 * that got no answer, `lastReceivedAt`, and subscribers. The public methods take and give the ids of a timer's firings.
 */
export abstract class BaseStore<Tx = never> extends StoreSteps<Tx> implements EventStore<Tx> {
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
  readonly #lost = new LostClaims({
    find: (calls) => this.doFindLost(calls),
    release: ({ claim, row }) => this.#settles.call(settlementOf<Tx>(claim, row, { state: "released" })),
  });
  /** Begins the tokens of this handle's additions. Made with the first one, because a Worker's start has no random values. */
  #name: string | undefined;
  #added = 0;
  readonly #clock = new StoreClock({
    newestReceivedAt: () => this.#newestReceivedAt(),
    setBack: async () => {
      await this.doSetBack();
      this.#woke();
    },
  });
  #isWaking = false;
  /** Ends the calls of the notifier. */
  #silence: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  async add(event: NewEvent, options?: AddOptions): Promise<AddAnswer> {
    this.assertOpen();
    checkNoUnknown(options, ["dueIn", "dueAt", "replace"]);
    if (options?.dueAt !== undefined) await this.#knowClock();
    this.#added += 1;
    this.#name ??= crypto.randomUUID().slice(0, 9);
    const token = this.#name + this.#added.toString(36);
    return this.#adds.call(additionOf(event, options, token, (at) => this.toStoreTime(at)));
  }

  async #add(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    let answers: readonly AddAnswer[] | undefined;
    try {
      answers = await this.doAdd(additions).catch((error: unknown) => {
        // A second try is safe, because each addition has a token. A group is repeated anyway, one call at a time.
        if (additions.length > 1 || !(error instanceof NoAnswerError)) throw error;
        return this.doAdd(additions);
      });
      return answers;
    } finally {
      // After an error, only the answer may have been lost. The repeated call then finds a duplicate, and would wake nobody.
      if (answers === undefined || answers.includes("added")) this.#woke();
    }
  }

  async claim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    this.assertOpen();
    checkNoUnknown(options, ["limit", "leaseDuration", "worker", "eventId", "onNextDue", "except", "only"]);
    const restriction = checkedRestriction(options);
    if (!(options.limit > 0)) return [];
    // A lease of 0 ms would end at once, and the same claim would lease the event again. So use at least 1 ms.
    const leaseDuration = Math.max(1, Math.ceil(options.leaseDuration));
    const checked = { ...options, ...restriction, limit: Math.ceil(options.limit), leaseDuration };
    if (restriction.only?.length === 0) {
      options.onNextDue?.(undefined);
      return [];
    }
    if (options.eventId !== undefined) {
      if (!(await this.#isCurrent(options.eventId))) return [];
      checked.eventId = rowIdOf(options.eventId).eventId;
    }
    const { claimed, next } = await this.#clock.follow(
      () => this.#claim(checked),
      (found) => found.claimed.length > 0,
    );
    for (const { claim, row } of claimed) this.#remember(claim.lease, row);
    if (next !== undefined) options.onNextDue?.(next ?? undefined);
    return claimed.map(({ claim }) => withFiringId(claim));
  }

  /** @returns the claims, and the ms until the next one can succeed; `null` if no event waits */
  async #claim(options: ClaimOptions) {
    await this.#lost.giveBack();
    const call: ClaimCall = { ...options, token: crypto.randomUUID().slice(9), claimed: [] };
    const { now, result } = await this.#lost.watch(call, () => this.doClaim(call));
    const { claimed, nextDueAt: at } = result;
    return { now, result: { claimed, next: at == null ? at : Math.max(0, at - now) } };
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
    if (hasTimes(outcome)) await this.#knowClock();
    const settlement = settlementOf({ ...claim }, row, outcome, (at) => this.toStoreTime(at));
    const { held, more } =
      settlement.writes.length > 0
        ? (await this.doSettle([settlement]))[0]!
        : await this.#settles.call(settlement);
    this.#rows.delete(claim.lease);
    if (held && (more || settlement.additions.length > 0)) this.#woke();
    return held;
  }

  /** Converts a time by the clock of this process to a time by the store's clock. Both are epoch ms. */
  protected toStoreTime(at: number): number {
    // A sandbox moves the clock of this process only.
    return at - clockOffset() + this.#clock.difference;
  }

  /** Reads the store's clock, if no call has read it yet. */
  async #knowClock(): Promise<void> {
    if (!this.#clock.isKnown) await this.nextDue();
  }

  async nextDue(options: NextDueOptions = {}): Promise<number | undefined> {
    this.assertOpen();
    checkNoUnknown(options, ["except", "only"]);
    const restriction = checkedRestriction(options);
    await this.#lost.giveBack();
    if (restriction.only?.length === 0) return undefined;
    return this.#clock.follow(
      () => this.doNextDue(restriction),
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
    const from = after === undefined ? undefined : await this.arrivalOf(rowIdOf(after).eventId);
    if (!(limit > 0) || (after !== undefined && from === undefined)) return events;
    const rest = (before: number | undefined) =>
      this.doList(filter, { before, limit: limit - events.length });
    for await (const found of slices(rest, from)) {
      events.push(...found.map(withFiringId));
      if (events.length >= limit) break;
    }
    return events;
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    this.assertOpen();
    if (typeof eventId !== "string")
      throw new InvalidArgumentError({ path: ["eventId"], message: "must be a string" });
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

  async eraseAccount(account: string): Promise<ErasedAccount> {
    checkAccount(account);
    this.assertOpen();
    await this.#keepLastReceived();
    let [events, snapshots, processing] = [0, 0, 0];
    let from: string | undefined;
    do {
      this.assertOpen();
      const step = await this.doEraseAccount(account, from);
      events += step.events;
      snapshots += step.snapshots;
      processing += step.processing;
      from = step.next;
    } while (from !== undefined);
    return { events, snapshots, processing };
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
    this.#silence ??= this.notifier?.listen(() => this.subscribers.wake());
    return () => {
      unsubscribe();
      if (this.subscribers.isEmpty) this.#endListening();
    };
  }

  #endListening(): void {
    this.#silence?.();
    this.#silence = undefined;
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
    const idle = Promise.all([this.#adds.idle(), this.#settles.idle(), this.#renewals.idle()]);
    await withTimeout(CALLS_WITHIN, idle);
    this.#endListening();
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

  /** Lets processes wake each other. Default: the store has none. */
  protected get notifier(): SqlNotifier | undefined {
    return undefined;
  }

  /** Wakes the subscribers once for all events that one turn made due. */
  #woke(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    // Not `queueMicrotask`, which tests fake.
    void Promise.resolve().then(() => {
      this.#isWaking = false;
      if (this.closed) return;
      this.subscribers.wake();
      this.notifier?.notify();
    });
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
    const filter = checkedChangeFilter(change, given);
    const states = statesOf(change, filter);
    let changed = 0;
    const batch = async (before: number | undefined) => {
      this.assertOpen();
      return this.doChange(change, filter, states, { before, limit: CHANGE_BATCH });
    };
    for await (const found of slices(batch)) changed += found;
    if (changed > 0) this.#woke();
    return changed;
  }
}

function hasTimes(outcome: Outcome<never>): boolean {
  return "events" in outcome && outcome.events?.some(({ dueAt }) => dueAt !== undefined) === true;
}

interface Renewal {
  readonly claim: ClaimedEvent;
  readonly duration: number;
}

function checkRef(ref: unknown): void {
  if (typeof ref !== "string" || ref === "")
    throw new InvalidArgumentError({ path: ["ref"], message: "must be a text such as booking:HX3K9" });
}
