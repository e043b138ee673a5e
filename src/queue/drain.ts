import { MAX_TIMER, withTimeout } from "../async.ts";
import { rowIdOf } from "../stores/firing-id.ts";
import type { Attempt, AttemptEnd } from "./attempt.ts";
import type { Lease } from "./leases.ts";
import type { Parts } from "./parts.ts";

/** A drain without a timeout ends when the platform has refused every record for this long, ms. */
const ONLY_REFUSED = 60_000;

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
  /** How many of the drain's events ended as done. */
  readonly done: number;
  /** Events that failed, and are retrying or parked now. */
  readonly failed: number;
}

/** Makes one attempt at each event that is due, and waits for the attempts that already run. */
export class Drain<Tx> {
  readonly #stop: Stop;
  readonly #queue: Parts<Tx>;
  readonly #startedAt = performance.now();
  /** The leases of events that are due again after their attempt in this drain. */
  readonly held: Lease[] = [];
  /** The ids of rows: a timer that sets itself again must not keep a drain from its end. */
  readonly #known = new Set<string>();
  /** The attempts that have not ended. */
  readonly #open = new Set<Attempt<Tx>>();
  #done = 0;
  #failed = 0;

  constructor(stop: Stop, queue: Parts<Tx>) {
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
    const { gates, unrecorded, changes, claims, tries } = this.#queue;
    const { requested } = this.#stop;
    tries.lookAnew();
    /** What the last empty claim has seen. */
    let looked = "";
    while (!this.isOver) {
      const { next, looks } = changes;
      const now = performance.now();
      const { limit, wait, version } = claims.roomAt(now);
      const isHopeless = this.#isHopeless(now);
      if (limit > 0 && !isHopeless && looked !== `${looks} ${version}`) {
        const filled = await Promise.race([claims.fill({ limit, claimant: this }), requested]);
        if (filled?.claimed === 0) looked = `${looks} ${version}`;
        continue;
      }
      const limitedIn = isHopeless ? undefined : await Promise.race([tries.run(this), requested]);
      if (changes.next !== next) continue;
      const isBlocked = limit === 0 && !(gates.isAllShut || isHopeless || claims.closed);
      if (this.#open.size > 0 || isBlocked || limitedIn !== undefined) {
        if (this.#onlyKeepsResults && unrecorded.isStuckAt(now)) {
          // If the store records others, the results are at fault themselves, and go on without the drain.
          if (unrecorded.failure === undefined) break;
          throw unrecorded.failure;
        }
        const within = Math.min(
          limitedIn ?? Number.POSITIVE_INFINITY,
          (isBlocked && wait) || Number.POSITIVE_INFINITY,
        );
        const either = Promise.race([next, requested]);
        await (Number.isFinite(within) ? withTimeout(within, either) : either);
      } else {
        // The loop may be claiming the last due events at this moment.
        await Promise.race([claims.inFlight(), requested]);
        if (this.#open.size === 0 && changes.looks === looks) break;
      }
    }
  }

  /** Whether the platform has refused all records for so long that a drain without a timeout ends. */
  #isHopeless(now: number): boolean {
    const { since } = this.#queue.floods;
    return !this.#stop.timed && since !== undefined && now - Math.max(this.#startedAt, since) >= ONLY_REFUSED;
  }

  /** Whether all that the drain waits for are results that the store does not record. */
  get #onlyKeepsResults(): boolean {
    return this.#open.size > 0 && [...this.#open].every(({ keepsResult }) => keepsResult);
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
