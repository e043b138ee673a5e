import { withTimeout } from "../async.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { Attempt, type AttemptEnd, type AttemptOptions } from "./attempt.ts";
import { GRACE } from "./leases.ts";
import type { Parts } from "./parts.ts";
import { recordOf } from "./work.ts";

/** How long the store may take to release a lease, ms. */
export const GIVE_BACK = 5000;

/** Gets the attempts that begin and end in this process. */
export interface AttemptWatcher<Tx> {
  started(attempt: Attempt<Tx>): void;
  ended(attempt: Attempt<Tx>, end: AttemptEnd): void;
}

/** The attempts that run in this process. */
export class RunningAttempts<Tx> {
  readonly #queue: Parts<Tx>;
  readonly #all = new Set<Attempt<Tx>>();
  /** The attempts that only wait for the store to record their end. */
  readonly #settling = new Set<Attempt<Tx>>();
  /** The latest attempt of each record. */
  readonly #byRecord = new Map<string, Attempt<Tx>>();
  readonly #watchers = new Set<AttemptWatcher<Tx>>();
  /** How many times an attempt has given up its slot, since the process began. */
  freed = 0;

  constructor(queue: Parts<Tx>) {
    this.#queue = queue;
  }

  get all(): readonly Attempt<Tx>[] {
    return [...this.#all];
  }

  get size(): number {
    return this.#all.size;
  }

  /** How many attempts may begin besides the running ones. */
  get freeSlots(): number {
    const { concurrency } = this.#queue.policy;
    // Up to `concurrency` attempts that only record their end take no slot. Without this limit, such attempts would
    // pile up if the store is slow. Results that the store has refused take no slot at all.
    const most = concurrency + this.#queue.unrecorded.size;
    return concurrency + Math.min(this.#settling.size, most) - this.#all.size;
  }

  of(eventId: string): Attempt<Tx> | undefined {
    return this.all.find(({ claim }) => claim.eventId === eventId);
  }

  /** Returns the latest attempt at an event of the same record. */
  ofSameRecord(event: NewEvent): Attempt<Tx> | undefined {
    return this.#byRecord.get(recordOf(event));
  }

  /** @param givesUp - whether the attempt parks its event without a read */
  start(claim: ClaimedEvent, leaseEndsAt: number, givesUp = false): Attempt<Tx> {
    const { fairness, leases } = this.#queue;
    const earlier = this.ofSameRecord(claim);
    const lane = this.#queue.laneOf(claim);
    fairness.take(lane.account);
    const options: AttemptOptions = {
      lane,
      givesUp,
      leaseEndsAt,
      after: earlier?.ended,
      onSettling: () => {
        // The store may fail to record the end, and is asked again.
        if (this.#settling.has(attempt)) return;
        this.#settling.add(attempt);
        fairness.free(lane.account);
        this.freed += 1;
        this.#queue.slotFreed();
      },
    };
    const begin = (): Attempt<Tx> => new Attempt(claim, this.#queue, options);
    const attempt: Attempt<Tx> = this.#queue.contextOf?.(claim.eventId)?.(begin) ?? begin();
    this.#all.add(attempt);
    this.#byRecord.set(recordOf(claim), attempt);
    leases.add(attempt.lease);
    for (const watcher of this.#watchers) watcher.started(attempt);
    void attempt.ended.then((end) => {
      if (!this.#settling.has(attempt)) fairness.free(lane.account);
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
    if (!this.#settling.delete(attempt)) this.freed += 1;
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
    for (const attempt of attempts) if (!attempt.keepsResult) attempt.giveUp();
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
