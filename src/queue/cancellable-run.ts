import type { ClaimedEvent } from "../stores/event-store.ts";
import { atMost } from "./timer.ts";
import type { Work, WorkResult } from "./work.ts";

/** How long a callback has to clean up after its signal has aborted; its record stays locked meanwhile, ms. */
export const GRACE = 3000;

/** Why work is cut off, but for its time being over: its process closes, its lease is lost, its caller aborts. */
export type Cut = "released" | "lost" | "aborted";

export interface CancellableRunOptions {
  /** ms */
  readonly attemptTimeout: number;
  /** The other side has answered. */
  readonly onAnswered?: () => void;
}

/** Work that can be cut off: its signal aborts, it has the time of {@link GRACE} to end, and is left alone then. */
export class CancellableRun<Tx> {
  readonly #work: Work<Tx>;
  readonly #claim: ClaimedEvent;
  readonly #options: CancellableRunOptions;
  readonly #abort = new AbortController();
  readonly #cut = new Deferred<{ readonly by: Cut | "timeout"; readonly reason: unknown }>();
  readonly #left = new Deferred<void>();
  /** The other side has answered, or there is nothing to ask it: what happens now is the callback's doing. */
  #inCallback: boolean;

  constructor(work: Work<Tx>, claim: ClaimedEvent, options: CancellableRunOptions) {
    this.#work = work;
    this.#claim = claim;
    this.#options = options;
    this.#inCallback = claim.ref === null;
  }

  /** The first cut counts; but where the lease is lost as well, there is no lock left to keep while the work ends. */
  cut(by: Cut, reason: unknown = new DOMException(REASONS[by], "AbortError")): void {
    if (this.#abort.signal.aborted && by === "lost") this.#left.resolve();
    this.#cut.resolve({ by, reason });
  }

  /** Never rejects. Cut off by its time, the work has failed. */
  async run(): Promise<
    WorkResult<Tx> | { readonly state: "cut"; readonly by: Cut; readonly reason: unknown }
  > {
    const { attemptTimeout } = this.#options;
    const timer = setTimeout(() => {
      const reason = new DOMException(`cut off after ${attemptTimeout} ms (attemptTimeout)`, "TimeoutError");
      this.#cut.resolve({ by: "timeout", reason });
    }, attemptTimeout);
    try {
      const working = this.#start();
      const first = await Promise.race([working, this.#cut.promise]);
      if ("state" in first) return first;
      const { by, reason } = first;
      this.#abort.abort(reason);
      await atMost(GRACE, [working, this.#left.promise]);
      if (by !== "timeout") return { state: "cut", by, reason };
      return this.#inCallback
        ? { state: "failed", reason: "callback", error: reason }
        : { state: "failed", reason: "unavailable", error: reason, outage: { everything: false } };
    } finally {
      clearTimeout(timer);
    }
  }

  async #start(): Promise<WorkResult<Tx>> {
    try {
      return await this.#work(this.#claim, {
        signal: this.#abort.signal,
        answered: () => {
          this.#inCallback = true;
          this.#options.onAnswered?.();
        },
      });
    } catch (error) {
      return { state: "failed", reason: "callback", error };
    }
  }
}

const REASONS: Record<Cut, string> = {
  released: "The webhook handler is closing; the event will be handled again.",
  lost: "The lease of the event was lost; another process may be handling it.",
  aborted: "The caller aborted.",
};

/** A promise that is resolved from outside. */
export class Deferred<T> {
  resolve!: (value: T) => void;
  readonly promise = new Promise<T>((resolve) => {
    this.resolve = resolve;
  });
}
