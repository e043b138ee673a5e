import type { AttemptEnd } from "./attempt.ts";
import type { OutageGate } from "./outage.ts";
import { MAX_TIMER } from "./timer.ts";
import type { Workers } from "./workers.ts";

/** When a drain is to end before all that is due is handled. */
export interface DrainOptions {
  /** ms after which nothing more is begun and what runs is cut off. Default: none. */
  readonly timeout?: number | undefined;
  /** Ends the drain as `timeout` does. */
  readonly signal?: AbortSignal | undefined;
}

/** What became of the events that a drain took, and of those that its process had in hand. */
export interface DrainResult {
  /** Events that were handled to their end. */
  readonly done: number;
  /** Events that are retrying or parked now. */
  readonly failed: number;
}

/** Takes each event that is due now once, and waits for what this process already works on. */
export async function drain<Tx>(
  workers: Workers<Tx>,
  gate: OutageGate,
  options: DrainOptions,
): Promise<DrainResult> {
  const book = new Book(workers.running);
  const forget = workers.listen(book);
  const stop = new Stop(options);
  const giveBack: (() => Promise<void>)[] = [];
  try {
    while (!stop.asked) {
      const { free } = workers;
      const endings = book.endings;
      const claims = free > 0 ? await workers.claim({ limit: free }) : [];
      for (const claim of claims) {
        // One that has failed here and is due again: kept aside, so that the next claim reaches the others.
        if (stop.asked || book.knows(claim.event.eventId)) giveBack.push(workers.hold(claim));
        else void workers.start(claim);
      }
      // The end of an attempt while the claim was under way may have made another event of its record due.
      if (claims.length > 0 || book.endings !== endings) continue;
      if (book.open === 0 && (free > 0 || gate.paused)) {
        // What the loop has claimed just now is not begun yet, and cannot be claimed here.
        if (await Promise.race([workers.claimedByOthers(), stop.requested])) continue;
        break;
      }
      await Promise.race([workers.nextChange({ noSlot: free <= 0 }), stop.requested]);
    }
    if (stop.asked) await workers.release((eventId) => book.isOpen(eventId));
    return book.result;
  } finally {
    stop.clear();
    forget();
    await Promise.all(giveBack.map((give) => give()));
  }
}

/** What a drain has begun, and how it ended. */
class Book {
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
class Stop {
  asked = false;
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
    if (timeout !== undefined) this.#timer = setTimeout(this.#ask, Math.min(timeout, MAX_TIMER));
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#ask);
  }
}
