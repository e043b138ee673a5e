import { MAX_TIMER } from "../async.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { CircuitBreaker } from "./circuit-breaker.ts";
import type { Refusals } from "./refusals.ts";
import type { Workers } from "./workers.ts";

/** How long a drain without a timeout goes on while the platform refuses every record, ms. */
const ONLY_REFUSED = 60_000;

/** Limits of a drain. */
export interface DrainOptions {
  /** How long the drain may take, ms. It then begins no further attempt and cuts off those that run. Default: no limit. */
  readonly timeout?: number | undefined;
  /** Ends the drain as `timeout` does. */
  readonly signal?: AbortSignal | undefined;
}

/** How many events a drain handled, those included that the process was already working on. */
export interface DrainResult {
  /** Events that are done. */
  readonly done: number;
  /** Events that are retrying or parked now. */
  readonly failed: number;
}

/** The parts of the queue that a drain uses. */
export interface DrainParts<Tx> {
  readonly workers: Workers<Tx>;
  readonly breaker: CircuitBreaker;
  readonly refusals: Refusals;
}

/** Makes one attempt at each event that is due, and waits for the attempts that already run. */
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
        // An event that failed in this drain may be due again. Hold its claim, so that the next claim gets other events.
        if (stop.asked || tally.knows(claim.event.eventId)) giveBack.push(workers.hold(claim));
        else void workers.start(claim);
      }
      // If an attempt ended during the claim, the next event of its record may be due now.
      if (claims.length > 0 || tally.endings !== endings) continue;
      const paused = breaker.pause !== undefined;
      if (tally.open === 0 && (limit > 0 || paused || hopeless)) {
        // The loop may be claiming events at this moment. This drain cannot claim them, so wait for their attempts.
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

/** Counts the attempts of a drain and their results. */
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

/** Joins a timeout and a signal. */
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
