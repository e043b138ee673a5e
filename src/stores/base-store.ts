import { withTimeout } from "../async.ts";
import { clockOffset } from "../clock.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { checkedRestriction } from "./beginnings.ts";
import { NoAnswerError } from "./call-errors.ts";
import { CallGroup, GROUP } from "./call-group.ts";
import type { Outcome } from "./event-store.ts";
import { isFiring, rowIdOf, withFiringId, withRowId } from "./firing-id.ts";
import { LAST_RECEIVED } from "./last-received.ts";
import { type Addition, additionOf, type ClaimedRow, type Settlement, settlementOf } from "./outcomes.ts";
import type { SqlNotifier } from "./sql/driver.ts";
import { StoreClock } from "./store-clock.ts";
import type { AddOptions, ClaimOptions, NextDueOptions } from "./store-options.ts";
import { type AddAnswer, type ClaimCall, type Claimed, type Settled, StoreSteps } from "./store-steps.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";

/** How long `close` waits for the calls that share a statement, ms. The network may be gone. */
const CALLS_WITHIN = 8000;
/** How long a store then waits for its own calls, ms. */
export const CLOSE_WITHIN = 2000;

/** How many claims' rows a store remembers. A process hardly holds more leases at once. */
const CLAIMS = 10_000;

/**
 * What all stores do alike while events are handled: calls that share a statement, what an attempt does to its event, claims
 * that got no answer, `lastReceivedAt`, and subscribers. The public methods take and give the ids of a timer's firings.
 */
export abstract class BaseStore<Tx = never> extends StoreSteps<Tx> {
  // The set contains objects, not functions, because the same function may subscribe twice.
  readonly #subscriptions = new Set<{ readonly wake: () => void }>();
  readonly #adds = new CallGroup<Addition, AddAnswer>(
    ({ event }) => event.eventId,
    (additions) => this.#add(additions),
  );
  readonly #settles = new CallGroup<Settlement<Tx>, Settled>(
    ({ claim }) => claim.ref ?? claim.eventId,
    (settlements) => this.doSettle(settlements),
  );
  readonly #rows = new Map<string, ClaimedRow>();
  /** The calls of `claim` that got no answer. */
  readonly #lost = new Set<ClaimCall>();
  /** Begins the tokens of this handle's additions. Made with the first one, because a Worker's start has no random values. */
  #name: string | undefined;
  #added = 0;
  readonly #clock = new StoreClock({
    newestReceivedAt: () => this.#newestReceivedAt(),
    setBack: async () => {
      await this.doSetBack();
      this.woke();
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
      if (answers === undefined || answers.includes("added")) this.woke();
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
      if (!(await this.isCurrent(options.eventId))) return [];
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
    await this.#giveBack();
    const call: ClaimCall = { ...options, token: crypto.randomUUID().slice(9), claimed: [] };
    const { now, result } = await this.doClaim(call).catch((error: unknown) => {
      this.#lost.add(call);
      throw error;
    });
    const { claimed, nextDueAt: at } = result;
    return { now, result: { claimed, next: at == null ? at : Math.max(0, at - now) } };
  }

  /**
   * Releases the events of claims that got no answer: no process got them, so the attempts do not count, and no event waits
   * for the end of a lease that nobody holds. Until it succeeds, each later call tries again.
   */
  async #giveBack(): Promise<void> {
    if (this.#lost.size === 0) return;
    const calls = [...this.#lost];
    const release = ({ claim, row }: Claimed) =>
      this.#settles.call(settlementOf<Tx>(claim, row, { state: "released" }));
    await Promise.all((await this.doFindLost(calls)).map(release));
    for (const call of calls) this.#lost.delete(call);
  }

  async renew(given: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.assertOpen();
    const duration = Math.max(1, Math.ceil(leaseDuration));
    const claims = given.map(withRowId);
    const groups = Array.from({ length: Math.ceil(claims.length / GROUP) }, (_, n) =>
      claims.slice(n * GROUP, (n + 1) * GROUP),
    );
    const held = new Set((await Promise.all(groups.map((group) => this.doRenew(group, duration)))).flat());
    return given.filter(({ lease }) => held.has(lease));
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
    if (held && (more || settlement.additions.length > 0)) this.woke();
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
    await this.#giveBack();
    if (restriction.only?.length === 0) return undefined;
    return this.#clock.follow(
      () => this.doNextDue(restriction),
      (next) => next === 0,
    );
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
  protected async isCurrent(eventId: string): Promise<boolean> {
    const row = rowIdOf(eventId);
    if (row.timestamp === undefined) return true;
    const event = await this.doFind(row.eventId);
    return event !== undefined && isFiring(event, row.timestamp);
  }

  async lastReceivedAt(): Promise<Date | undefined> {
    this.assertOpen();
    const times = await Promise.all([this.doLastReceivedAt(), this.doGetMeta(LAST_RECEIVED)]);
    const [newest = 0, kept = 0] = [times[0], times[1] && Number(times[1].value)];
    return newest || kept ? new Date(Math.max(newest, kept)) : undefined;
  }

  subscribe(wake: () => void): () => void {
    this.assertOpen();
    const subscription = { wake };
    this.#subscriptions.add(subscription);
    this.#silence ??= this.notifier?.listen(() => this.wakeHere());
    return () => {
      this.#subscriptions.delete(subscription);
      if (this.#subscriptions.size === 0) this.#endListening();
    };
  }

  /** Wakes the subscribers of this process, because an event may be due. */
  protected wakeHere(): void {
    for (const { wake } of [...this.#subscriptions]) {
      try {
        wake();
      } catch {
        // Ignore an error of `wake`. The store has already written the change, so the store's method must not reject.
      }
    }
  }

  #endListening(): void {
    this.#silence?.();
    this.#silence = undefined;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close().finally(() => this.#subscriptions.clear());
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Calls that wait for their statement were made before `close`, so let them end first. */
  async #close(): Promise<void> {
    const idle = Promise.all([this.#adds.idle(), this.#settles.idle()]);
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
  protected woke(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    // Not `queueMicrotask`, which tests fake.
    void Promise.resolve().then(() => {
      this.#isWaking = false;
      if (this.closed) return;
      this.wakeHere();
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
    const event = await this.doFind(eventId);
    return event && { history: event.history, worker: undefined };
  }
}

function hasTimes(outcome: Outcome<never>): boolean {
  return outcome.events?.some(({ dueAt }) => dueAt !== undefined) === true;
}
