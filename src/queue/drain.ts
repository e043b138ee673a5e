import { MAX_TIMER, withTimeout } from "../async.ts";
import { rowIdOf } from "../stores/firing-id.ts";
import type { Attempt, AttemptEnd } from "./attempt.ts";
import type { ChangeSignal } from "./change-signal.ts";
import type { Claims } from "./claims.ts";
import type { Driver } from "./driver.ts";
import type { Lease } from "./leases.ts";
import { commonClaim, isHopeless, needsSlot, type View, versionOf } from "./plan.ts";
import type { RunningAttempts } from "./running-attempts.ts";
import { PATIENCE } from "./settling.ts";
import type { QueueState } from "./state.ts";

/** How often a drain looks whether it waits only for results that the store does not record, ms. */
const LOOK_AGAIN = 5000;

/** Limits of a drain. */
export type DrainOptions = {
  /**
   * The time limit, ms. At the limit, the drain aborts the running attempts and starts no new attempt. Default: no
   * limit.
   */
  readonly timeout?: number | undefined;
  /** When the signal aborts, the drain aborts the running attempts and starts no new attempt. */
  readonly signal?: AbortSignal | undefined;
};

/** How many events a drain handled. The counts include events that the process was already working on. */
export interface DrainResult {
  /** How many of the drain's events ended as done. */
  readonly done: number;
  /** Events that failed, and are retrying or parked now. */
  readonly failed: number;
}

/** What a drain needs of its queue. */
interface DrainedQueue<Tx> {
  readonly state: QueueState;
  readonly running: RunningAttempts<Tx>;
  readonly claims: Claims<Tx>;
  readonly driver: Driver<Tx>;
  readonly changes: ChangeSignal;
}

/** Makes one attempt at each event that is due, and waits for the attempts that already run. */
export class Drain<Tx> {
  readonly #stop: Stop;
  readonly #queue: DrainedQueue<Tx>;
  readonly #startedAt = performance.now();
  /** The leases of events that are due again after their attempt in this drain. */
  readonly held: Lease[] = [];
  /** The ids of rows: a timer that sets itself again must not keep a drain from its end. */
  readonly #known = new Set<string>();
  /** The attempts that have not ended. */
  readonly #open = new Set<Attempt<Tx>>();
  readonly #view: View = { dueAt: Number.NEGATIVE_INFINITY, version: 0, ahead: () => 0 };
  #done = 0;
  #failed = 0;

  constructor(stop: Stop, queue: DrainedQueue<Tx>) {
    this.#stop = stop;
    this.#queue = queue;
  }

  async run(): Promise<DrainResult> {
    const { running, claims } = this.#queue;
    running.watch(this);
    try {
      await this.#handleDue();
      if (this.isOver) await running.release([...this.#open]);
      return { done: this.#done, failed: this.#failed };
    } finally {
      running.unwatch(this);
      await claims.giveBackAll(this.held);
    }
  }

  async #handleDue(): Promise<void> {
    const { changes, claims, driver, state } = this.#queue;
    const { requested, timed } = this.#stop;
    driver.lookAnew();
    let seen = changes.looks;
    while (!this.isOver) {
      const { next, looks } = changes;
      const now = performance.now();
      if (looks !== seen) this.#view.dueAt = now;
      seen = looks;
      const isOver = !timed && isHopeless(state, this.#startedAt, now);
      const common = isOver ? undefined : commonClaim(state, this.#view, now);
      if (common !== undefined) {
        await this.#claim(common.limit);
        continue;
      }
      const limitedIn = isOver ? undefined : await Promise.race([driver.run(this), requested]);
      if (changes.next !== next) continue;
      if (this.#open.size > 0 || limitedIn !== undefined || (!isOver && needsSlot(state))) {
        if (this.#isStuckAt(now)) return this.#endStuck();
        await withTimeout(Math.min(limitedIn ?? LOOK_AGAIN, LOOK_AGAIN), Promise.race([next, requested]));
      } else {
        // The loop may be claiming the last due events at this moment.
        await Promise.race([claims.inFlight(), requested]);
        if (this.#open.size === 0 && changes.looks === looks) break;
      }
    }
  }

  /** Claims due events. An empty claim is repeated only if others may be due. */
  async #claim(limit: number): Promise<void> {
    const { claims, state } = this.#queue;
    this.#view.version = versionOf(state);
    const claiming = claims.fill({ limit, isCommon: true, claimant: this });
    const filled = await Promise.race([claiming, this.#stop.requested]);
    if (filled?.claimed === 0) this.#view.dueAt = Number.POSITIVE_INFINITY;
  }

  /** Whether the drain waits only for results that the store does not record, for one of them too long. */
  #isStuckAt(now: number): boolean {
    const kept = [...this.#open].map((attempt) => attempt.kept);
    return kept.every((each) => each !== undefined) && kept.some(({ since }) => now - since >= PATIENCE);
  }

  /** @throws the error of the store, unless it records others: the results are at fault then, and go on without the drain */
  #endStuck(): void {
    const { failure } = this.#queue.running;
    if (failure !== undefined) throw failure;
  }

  /** Whether the drain was stopped. */
  get isOver(): boolean {
    return this.#stop.asked;
  }

  knows(eventId: string): boolean {
    return this.#known.has(rowIdOf(eventId).eventId);
  }

  /** Counts the attempt, unless the drain has seen another attempt at the same event. */
  started(attempt: Attempt<Tx>): void {
    const { eventId } = rowIdOf(attempt.claim.eventId);
    if (this.#known.has(eventId)) return;
    this.#known.add(eventId);
    this.#open.add(attempt);
  }

  ended(attempt: Attempt<Tx>, end: AttemptEnd): void {
    if (!this.#open.delete(attempt)) return;
    // The attempt has recorded changes before its call, and comes again.
    if (end === "released") this.#known.delete(rowIdOf(attempt.claim.eventId).eventId);
    if (end === "done") this.#done += 1;
    else if (end === "retrying" || end === "parked") this.#failed += 1;
  }
}

/** Combines the timeout and the signal of a drain. */
export class Stop {
  asked = false;
  /** Whether there is a timeout. */
  readonly timed: boolean;
  readonly requested: Promise<void>;
  readonly #signal: AbortSignal | undefined;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  #ask: () => void = () => {};

  constructor({ timeout, signal }: DrainOptions) {
    this.requested = new Promise((resolve) => {
      this.#ask = () => {
        this.asked = true;
        resolve();
      };
    });
    this.#signal = signal;
    signal?.addEventListener("abort", this.#ask);
    if (signal?.aborted) this.#ask();
    this.timed = timeout !== undefined;
    if (timeout !== undefined) this.#timer = setTimeout(this.#ask, Math.min(timeout, MAX_TIMER));
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#ask);
  }
}
