import { MAX_TIMER } from "../async.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { CircuitBreaker } from "./circuit-breaker.ts";
import type { Refusals } from "./refusals.ts";
import type { Workers } from "./workers.ts";

/** How long a drain without a timeout goes on while all records are refused, ms. */
const ONLY_REFUSED = 60_000;

/** When a drain is to end before all that is due is handled. */
export interface DrainOptions {
  /** ms after which the drain begins nothing more and cuts off what runs. Default: none. */
  readonly timeout?: number | undefined;
  /** Ends the drain as `timeout` does. */
  readonly signal?: AbortSignal | undefined;
}

/** What became of the events that a drain took, and of those that its process was working on. */
export interface DrainResult {
  /** Events that were handled to their end. */
  readonly done: number;
  /** Events that are retrying or parked now. */
  readonly failed: number;
}

/** What a drain works with. */
export interface DrainParts<Tx> {
  readonly workers: Workers<Tx>;
  readonly breaker: CircuitBreaker;
  readonly refusals: Refusals;
}

/** Takes each event that is due now once, and waits for what this process already works on. */
export async function drain<Tx>(
  { workers, breaker, refusals }: DrainParts<Tx>,
  stop: Stop,
): Promise<DrainResult> {
  const tally = new DrainTally(workers.running);
  const forget = workers.listen(tally);
  const startedAt = performance.now();
  const giveBack: (() => Promise<void>)[] = [];
  try {
    while (!stop.asked) {
      const now = performance.now();
      const { endings } = tally;
      const { limit, wait } = workers.roomAt(now);
      const onlyRefused = refusals.limiting && now - Math.max(startedAt, refusals.since) >= ONLY_REFUSED;
      const hopeless = onlyRefused && !stop.timed;
      const claims = limit > 0 && !hopeless ? await workers.claim({ limit }) : [];
      for (const claim of claims) {
        // An event that has failed here and is due again is kept aside, so that the next claim reaches the others.
        if (stop.asked || tally.knows(claim.event.eventId)) giveBack.push(workers.hold(claim));
        else void workers.start(claim);
      }
      // An attempt that ended during the claim may have made another event of its record due.
      if (claims.length > 0 || tally.endings !== endings) continue;
      const paused = breaker.pause !== undefined;
      if (tally.open === 0 && (limit > 0 || paused || hopeless)) {
        // A claim of the loop that is under way is not begun yet, and its events cannot be claimed here.
        if (await Promise.race([workers.claimedByOthers(), stop.requested])) continue;
        break;
      }
      const within = limit > 0 || paused || hopeless ? undefined : wait;
      await workers.nextChange({ noSlot: limit <= 0, within, or: [stop.requested] });
    }
    if (stop.asked) await workers.release((eventId) => tally.isOpen(eventId));
    return tally.result;
  } finally {
    forget();
    await Promise.all(giveBack.map((give) => give()));
  }
}

/** Counts what a drain has begun, and how it ended. */
class DrainTally {
  readonly #known: Set<string>;
  readonly #open: Set<string>;
  endings = 0;
  #done = 0;
  #failed = 0;

  constructor(running: readonly string[]) {
    this.#known = new Set(running);
    this.#open = new Set(running);
  }

  started(eventId: string): void {
    if (this.#known.has(eventId)) return;
    this.#known.add(eventId);
    this.#open.add(eventId);
  }

  ended(eventId: string, end: AttemptEnd): void {
    this.endings += 1;
    if (!this.#open.delete(eventId)) return;
    if (end === "done") this.#done += 1;
    else if (end === "retrying" || end === "parked") this.#failed += 1;
  }

  knows(eventId: string): boolean {
    return this.#known.has(eventId);
  }

  isOpen(eventId: string): boolean {
    return this.#open.has(eventId);
  }

  get open(): number {
    return this.#open.size;
  }

  get result(): DrainResult {
    return { done: this.#done, failed: this.#failed };
  }
}

/** A timeout and a signal as one. */
export class Stop {
  asked = false;
  /** It has a timeout. */
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
