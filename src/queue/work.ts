import { atMost } from "../async.ts";
import type { ClaimedEvent, FailureReason, Snapshot, Write } from "../stores/event-store.ts";
import { GRACE } from "./leases.ts";

/** What an attempt is given beside its event. */
export interface WorkContext {
  /** Aborts when the attempt is cut off: its time is over, its lease is lost, or the process closes. */
  readonly signal: AbortSignal;
  /** To be called as soon as the other side has answered: ends an outage without waiting for the rest of the work. */
  answered(): void;
}

/** Does what an event asks for. Reports failures; what it throws is taken for a failed callback. */
export type Work<Tx> = (claim: ClaimedEvent, context: WorkContext) => Promise<WorkResult<Tx>>;

export type WorkResult<Tx> =
  | {
      readonly state: "done";
      readonly type: string;
      /** The record as it was handled. */
      readonly record?: { readonly snapshot: Snapshot; readonly changed: boolean } | undefined;
      /** For the history, where the event ends as done although something failed: a recheck that could not read its record. */
      readonly error?: unknown;
      readonly reason?: FailureReason | undefined;
      readonly writes?: readonly Write<Tx>[] | undefined;
    }
  | ({ readonly state: "failed" } & WorkFailure);

/** A failure in the queue's own terms. Whoever reports it knows what it means; the queue knows what follows. */
export interface WorkFailure {
  readonly reason: FailureReason;
  readonly error: unknown;
  readonly type?: string | undefined;
  /** Attempts in all, where it deserves fewer than the queue's own limit. */
  readonly maxAttempts?: number | undefined;
  /** The other side answered, but would not give this record. */
  readonly refused?: boolean | undefined;
  /** The other side is out of reach: the attempt does not count. */
  readonly outage?: Outage | undefined;
}

export interface Outage {
  /** It concerns every record (a limit, a token), so that all work pauses at once. */
  readonly everything: boolean;
  /** How long the other side asked to be left alone, ms. */
  readonly retryAfter?: number | undefined;
}

/** Why a run is cut off: its process closes, its lease is about to end, its lease is lost, or its caller aborts. */
export type Cut = "released" | "expiring" | "lost" | "aborted";

export interface CancellableRunOptions {
  /** ms */
  readonly attemptTimeout: number;
  /** The platform has answered. */
  readonly onAnswered?: () => void;
}

/** A run of an event's work that can be cut off: its signal aborts, and it has the time of {@link GRACE} to end. */
export class CancellableRun<Tx> {
  readonly #work: Work<Tx>;
  readonly #claim: ClaimedEvent;
  readonly #options: CancellableRunOptions;
  readonly #abort = new AbortController();
  readonly #cut = Promise.withResolvers<{ readonly by: Cut | "timeout"; readonly reason: unknown }>();
  readonly #left = Promise.withResolvers<void>();
  #cutBy: { readonly by: Cut; readonly reason: unknown } | undefined;
  /** The platform has answered, or there is no record to ask for: a failure is the callback's from here on. */
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

  /** The first cut counts. A lost lease ends the grace of an earlier one, because there is no lock left to keep. */
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
      // The callback has done its work, and the lease is still held.
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
