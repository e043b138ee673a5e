import { MAX_TIMER } from "../async.ts";
import { rowIdOf } from "../stores/firing-id.ts";
import type { Attempt, AttemptEnd } from "./attempt.ts";
import type { Lease } from "./leases.ts";

/** Limits of a drain. */
export interface DrainOptions {
  /**
   * The time limit, ms. At the limit, the drain aborts the running attempts and starts no new attempt. Default: no
   * limit.
   */
  readonly timeout?: number | undefined;
  /** When the signal aborts, the drain aborts the running attempts and starts no new attempt. */
  readonly signal?: AbortSignal | undefined;
}

/** How many events a drain handled. The counts include events that the process was already working on. */
export interface DrainResult {
  /** Events that are done. */
  readonly done: number;
  /** Events that failed, and are retrying or parked now. */
  readonly failed: number;
}

/** The events that a running drain has seen, and their results. */
export class Drain<Tx> {
  readonly stop: Stop;
  readonly startedAt = performance.now();
  /** The leases of events that are due again after their attempt in this drain. */
  readonly held: Lease[] = [];
  /** The ids of rows: a timer that sets itself again must not keep a drain from its end. */
  readonly #known = new Set<string>();
  readonly #open = new Set<Attempt<Tx>>();
  #done = 0;
  #failed = 0;

  constructor(stop: Stop) {
    this.stop = stop;
  }

  /** Counts the attempt, unless the drain has seen another attempt at the same event. */
  add(attempt: Attempt<Tx>): void {
    const { eventId } = rowIdOf(attempt.claim.eventId);
    if (this.#known.has(eventId)) return;
    this.#known.add(eventId);
    this.#open.add(attempt);
  }

  ended(attempt: Attempt<Tx>, end: AttemptEnd): void {
    if (!this.#open.delete(attempt)) return;
    if (end === "done") this.#done += 1;
    else if (end === "retrying" || end === "parked") this.#failed += 1;
  }

  knows(eventId: string): boolean {
    return this.#known.has(rowIdOf(eventId).eventId);
  }

  /** The attempts that have not ended. */
  get open(): readonly Attempt<Tx>[] {
    return [...this.#open];
  }

  get result(): DrainResult {
    return { done: this.#done, failed: this.#failed };
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
