// Runs a callback that a timeout, a lost lease or `close` can cut off.

import { withTimeout } from "../async.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { GRACE } from "./leases.ts";
import type { Work, WorkContext, WorkResult } from "./work.ts";

/** Why a run is cut off. A run is `released` when the handler closes or a drain stops. */
export type Cut = "timeout" | "released" | "expiring" | "lost" | "aborted";

const AGAIN = `Unless the callback succeeds within ${GRACE / 1000} s, the event will be handled again.`;
const REASONS: Record<Exclude<Cut, "timeout">, string> = {
  released: `The webhook handler is closing, or drain() has ended. ${AGAIN}`,
  expiring: `The lease of the event could not be renewed and is about to end. ${AGAIN}`,
  lost: "The lease of the event was lost. Another process may be handling the event.",
  aborted: "The caller of process() aborted the attempt.",
};

/** The result of a run that was cut off and did not end in time. */
export interface CutOff {
  readonly state: "cut";
  readonly by: Cut;
  readonly reason: unknown;
}

interface CancellableRunOptions {
  readonly attemptTimeout: number;
  readonly onAnswered?: WorkContext["answered"];
  readonly onCalling?: WorkContext["calling"];
}

/** Runs the work of an event. `cut` aborts the signal of the work, which then has {@link GRACE} ms to end. */
export class CancellableRun<Tx> {
  readonly #work: Work<Tx>;
  readonly #claim: ClaimedEvent;
  readonly #options: CancellableRunOptions;
  readonly #abort = new AbortController();
  readonly #cut = Promise.withResolvers<CutOff>();
  readonly #left = Promise.withResolvers<void>();
  #cutOff: CutOff | undefined;
  /** The ledger that every outcome of the attempt records, unless its result has one. */
  noted: string | undefined;
  /** `true` if the platform has answered or the callback has begun. A timeout then counts as a failed callback. */
  #inCallback = false;

  constructor(work: Work<Tx>, claim: ClaimedEvent, options: CancellableRunOptions) {
    this.#work = work;
    this.#claim = claim;
    this.#options = options;
  }

  /** Resolves when the run is cut off. */
  get wasCut(): Promise<unknown> {
    return this.#cut.promise;
  }

  /** Only the first cut counts, but a later loss of the lease ends the grace period, because the lock is lost. */
  cut(by: Exclude<Cut, "timeout">, reason: unknown = new DOMException(REASONS[by], "AbortError")): void {
    if (this.#abort.signal.aborted && by === "lost") this.#left.resolve();
    this.#cutBy({ state: "cut", by, reason });
  }

  /** Never rejects. A timeout results in the state `failed`, not `cut`. */
  async run(): Promise<WorkResult<Tx> | CutOff> {
    if (this.#cutOff) return this.#cutOff;
    const { attemptTimeout } = this.#options;
    const timer = setTimeout(() => {
      const message = `the attempt took longer than ${attemptTimeout} ms (attemptTimeout)`;
      this.#cutBy({ state: "cut", by: "timeout", reason: new DOMException(message, "TimeoutError") });
    }, attemptTimeout);
    try {
      const working = this.#start();
      const first = await Promise.race([working, this.#cut.promise]);
      if (first.state !== "cut") return first;
      this.#abort.abort(first.reason);
      const late = await Promise.race([working, withTimeout(GRACE, this.#left.promise)]);
      return late?.state === "done" && this.#takesLate(first.by) ? late : this.#resultOf(first);
    } finally {
      clearTimeout(timer);
    }
  }

  #cutBy(cutOff: CutOff): void {
    this.#cutOff ??= cutOff;
    this.#cut.resolve(cutOff);
  }

  #resultOf(cutOff: CutOff): WorkResult<Tx> | CutOff {
    const { by, reason: error } = cutOff;
    if (by !== "timeout") return cutOff;
    return this.#inCallback
      ? { state: "failed", reason: "callback", error }
      : { state: "failed", reason: "unavailable", error, outage: { everything: false } };
  }

  /** Whether a `done` result that comes after a cut counts: the result of a callback whose lease still holds. */
  #takesLate(by: Cut): boolean {
    return this.#inCallback && (by === "released" || by === "expiring");
  }

  async #start(): Promise<WorkResult<Tx>> {
    try {
      return await this.#work(this.#claim, {
        signal: this.#abort.signal,
        answered: (withWhat) => {
          this.#inCallback = true;
          this.#options.onAnswered?.(withWhat);
        },
        calling: () => {
          this.#inCallback = true;
          this.#options.onCalling?.();
        },
        noted: (ledger) => {
          this.noted = ledger;
        },
      });
    } catch (error) {
      return { state: "failed", reason: "callback", error };
    }
  }
}
