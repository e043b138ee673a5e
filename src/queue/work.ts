import { atMost } from "../async.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { ClaimedEvent, Snapshot, Write } from "../stores/event-store.ts";
import { GRACE } from "./leases.ts";

/** The context of an attempt. */
export interface WorkContext {
  /** Aborts when the attempt is cut off: by its timeout, a lost lease, or `close`. */
  readonly signal: AbortSignal;
  /** Call it when the platform has answered. It ends a pause before the rest of the work is done. */
  answered(): void;
}

/** Handles an event. Returns failures. An error that it throws counts as a failure of the callback. */
export type Work<Tx> = (claim: ClaimedEvent, context: WorkContext) => Promise<WorkResult<Tx>>;

export type WorkResult<Tx> =
  | {
      readonly state: "done";
      readonly type: string;
      /** The record as it was handled. */
      readonly record?: { readonly snapshot: Snapshot; readonly changed: boolean } | undefined;
      /** For the history: the error of a recheck that could not read its record, which still ends as done. */
      readonly error?: unknown;
      readonly reason?: FailureReason | undefined;
      readonly writes?: readonly Write<Tx>[] | undefined;
    }
  | ({ readonly state: "failed" } & WorkFailure);

/** A failed attempt. The work says what failed, and the queue decides what follows. */
export interface WorkFailure {
  readonly reason: FailureReason;
  readonly error: unknown;
  readonly type?: string | undefined;
  /** The most attempts that this failure allows. Default: `maxAttempts` of the queue. */
  readonly maxAttempts?: number | undefined;
  /** The platform answered, but refused this record. */
  readonly refused?: boolean | undefined;
  /** The platform is out of reach. The attempt does not count. */
  readonly outage?: Outage | undefined;
}

export interface Outage {
  /** The outage concerns every record, such as a rate limit or a refused token. The queue pauses at once. */
  readonly everything: boolean;
  /** The wait that the platform asked for, ms. */
  readonly retryAfter?: number | undefined;
}

/** Why a run is cut off: the handler closes, the lease is about to end, the lease is lost, or the caller aborts. */
export type Cut = "released" | "expiring" | "lost" | "aborted";

export interface CancellableRunOptions {
  /** ms */
  readonly attemptTimeout: number;
  /** Called when the platform has answered. */
  readonly onAnswered?: () => void;
}

/** Runs the work of an event, and can cut it off: the signal aborts, and the work has {@link GRACE} to end. */
export class CancellableRun<Tx> {
  readonly #work: Work<Tx>;
  readonly #claim: ClaimedEvent;
  readonly #options: CancellableRunOptions;
  readonly #abort = new AbortController();
  readonly #cut = Promise.withResolvers<{ readonly by: Cut | "timeout"; readonly reason: unknown }>();
  readonly #left = Promise.withResolvers<void>();
  #cutBy: { readonly by: Cut; readonly reason: unknown } | undefined;
  /** The platform has answered, or the event has no record. From then on a timeout is a failure of the callback. */
  #inCallback: boolean;

  constructor(work: Work<Tx>, claim: ClaimedEvent, options: CancellableRunOptions) {
    this.#work = work;
    this.#claim = claim;
    this.#options = options;
    this.#inCallback = claim.ref === null;
  }

  /** Resolves when the run is cut off. */
  get wasCut(): Promise<unknown> {
    return this.#cut.promise;
  }

  /** Cuts the run off. The first cut counts, but a lost lease ends the grace of an earlier one: the record is no longer locked. */
  cut(by: Cut, reason: unknown = new DOMException(REASONS[by], "AbortError")): void {
    if (this.#abort.signal.aborted && by === "lost") this.#left.resolve();
    this.#cutBy ??= { by, reason };
    this.#cut.resolve({ by, reason });
  }

  /** Never rejects. A run that is cut off by its timeout has failed. */
  async run(): Promise<
    WorkResult<Tx> | { readonly state: "cut"; readonly by: Cut; readonly reason: unknown }
  > {
    if (this.#cutBy) return { state: "cut", ...this.#cutBy };
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
      const late = await Promise.race([working, atMost(GRACE, [this.#left.promise])]);
      // The callback finished in time, and the process still holds the lease.
      if ((by === "released" || by === "expiring") && late?.state === "done") return late;
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
  expiring:
    "The lease of the event could not be renewed and is about to end; the event will be handled again.",
  lost: "The lease of the event was lost; another process may be handling it.",
  aborted: "The caller aborted.",
};
