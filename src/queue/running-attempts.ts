import { withTimeout } from "../async.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { Attempt, type AttemptEnd, type AttemptQueue } from "./attempt.ts";
import { afterFreed, afterTaken } from "./fairness.ts";
import { GRACE, type Leases } from "./leases.ts";
import { type QueueOptions, recordOf } from "./work.ts";

/** How long the store may take to release a lease, ms. */
export const GIVE_BACK = 5000;

/** Gets the attempts that begin and end in this process. */
export interface AttemptWatcher<Tx> {
  started(attempt: Attempt<Tx>): void;
  ended(attempt: Attempt<Tx>, end: AttemptEnd): void;
}

/** What the running attempts need of their queue. */
interface RunningQueue<Tx> extends Omit<AttemptQueue<Tx>, "recorded">, Pick<QueueOptions<Tx>, "contextOf"> {
  readonly leases: Leases<Tx>;
  /** Called when a slot is free. */
  readonly changed: () => void;
  /** Called when an attempt has ended. */
  readonly attemptEnded: (end: AttemptEnd) => void;
}

/** The attempts that run in this process. */
export class RunningAttempts<Tx> {
  readonly #queue: RunningQueue<Tx> & AttemptQueue<Tx>;
  readonly #all = new Set<Attempt<Tx>>();
  /** The latest attempt of each record. */
  readonly #byRecord = new Map<string, Attempt<Tx>>();
  readonly #watchers = new Set<AttemptWatcher<Tx>>();
  /** When the store last recorded a result, on the monotonic clock. */
  #recordedAt = Number.NEGATIVE_INFINITY;

  constructor(queue: RunningQueue<Tx>) {
    const recorded = (): void => {
      this.#recordedAt = performance.now();
    };
    this.#queue = { ...queue, recorded };
  }

  get all(): readonly Attempt<Tx>[] {
    return [...this.#all];
  }

  /** Why the store does not record results. It is `undefined` if it has recorded one since it refused another. */
  get failure(): unknown {
    return this.all.find(({ kept }) => kept && kept.since > this.#recordedAt)?.kept?.error;
  }

  of(eventId: string): Attempt<Tx> | undefined {
    return this.all.find(({ claim }) => claim.eventId === eventId);
  }

  /** Returns the latest attempt at an event of the same record. */
  ofSameRecord(event: NewEvent): Attempt<Tx> | undefined {
    return this.#byRecord.get(recordOf(event));
  }

  /** @param givesUpBecause - why the attempt parks its event without a read */
  start(claim: ClaimedEvent, leaseEndsAt: number, givesUpBecause?: string): Attempt<Tx> {
    const { leases, state, changed } = this.#queue;
    const { slots } = state;
    const earlier = this.ofSameRecord(claim);
    const { account } = state.laneOf(claim);
    let isSettling = false;
    const freeSlot = (): void => {
      state.fairness = afterFreed(state.fairness, account);
      slots.freed += 1;
    };
    state.fairness = afterTaken(state.fairness, account);
    slots.running += 1;
    const onSettling = (): void => {
      // The store may fail to record the end, and is asked again.
      if (isSettling) return;
      isSettling = true;
      slots.settling += 1;
      freeSlot();
      changed();
    };
    const options = { givesUpBecause, leaseEndsAt, after: earlier?.ended, onSettling };
    const begin = (): Attempt<Tx> => new Attempt(claim, this.#queue, options);
    const attempt: Attempt<Tx> = this.#queue.contextOf?.(claim.eventId)?.(begin) ?? begin();
    this.#all.add(attempt);
    this.#byRecord.set(recordOf(claim), attempt);
    leases.add(attempt.lease);
    for (const watcher of this.#watchers) watcher.started(attempt);
    void attempt.ended.then((end) => {
      slots.running -= 1;
      if (isSettling) slots.settling -= 1;
      else freeSlot();
      this.#ended(attempt, end);
    });
    return attempt;
  }

  /**
   * Tells an attempt at the same record that the store has leased the record anew. An attempt that keeps a result of this
   * event takes the claim over. Any other attempt has lost its lease.
   *
   * @returns whether the claim was taken over
   */
  takeOver(claim: ClaimedEvent, leaseEndsAt: number): boolean {
    const earlier = this.ofSameRecord(claim);
    if (earlier?.takeOver(claim, leaseEndsAt)) return true;
    earlier?.lease.lose();
    return false;
  }

  #ended(attempt: Attempt<Tx>, end: AttemptEnd): void {
    this.#all.delete(attempt);
    if (this.ofSameRecord(attempt.claim) === attempt) this.#byRecord.delete(recordOf(attempt.claim));
    this.#queue.leases.delete(attempt.lease);
    for (const watcher of this.#watchers) watcher.ended(attempt, end);
    this.#queue.attemptEnded(end);
  }

  /** Tells the watcher of the attempts that run, and of those to come. */
  watch(watcher: AttemptWatcher<Tx>): void {
    for (const attempt of this.#all) watcher.started(attempt);
    this.#watchers.add(watcher);
  }

  unwatch(watcher: AttemptWatcher<Tx>): void {
    this.#watchers.delete(watcher);
  }

  /**
   * Aborts attempts, and releases their leases. Waits for the store after the callbacks have ended. An attempt goes on if it
   * keeps a result that the store did not record.
   */
  async release(attempts: readonly Attempt<Tx>[]): Promise<void> {
    await this.#release(attempts, GIVE_BACK);
    for (const attempt of attempts) if (!attempt.kept) attempt.giveUp();
  }

  /** Aborts all attempts, and releases their leases. Gives up the results that the store does not record in `giveBack` ms. */
  async end(giveBack: number): Promise<void> {
    const { all } = this;
    await this.#release(all, giveBack);
    for (const attempt of all) attempt.giveUp();
  }

  async #release(attempts: readonly Attempt<Tx>[], giveBack: number): Promise<void> {
    for (const attempt of attempts) attempt.release();
    // Do not wait longer: a store that hangs must not delay the end of the process. Unreleased leases expire.
    await withTimeout(GRACE + giveBack, Promise.all(attempts.map(({ ended }) => ended)));
  }
}
