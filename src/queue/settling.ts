// Records the end of an attempt in the store.

import { isThenable, withTimeout } from "../async.ts";
import { InvalidWriteError, StayhookError } from "../errors.ts";
import { InterruptedError } from "../stores/call-errors.ts";
import type { Outcome, Write } from "../stores/event-store.ts";
import type { Lease } from "./leases.ts";
import type { AttemptResult, QueueOptions } from "./work.ts";

/** How long to wait for the answer of `settle` after another claim of the record, ms. */
const OVERTAKEN = 1000;
/** The waits between tries to record a result, ms. Each later wait is as long as the last one. */
const WAITS = [50, 200, 1000, 2000, 5000] as const;
/** A result that the store refuses for this long, ms, ends as a failure of the callback, if the store records that. */
export const PATIENCE = 60_000;

/** A result that the store did not record. It keeps its slot, so that a store that records nothing soon gets no more claims. */
interface KeptResult {
  /** When the store did not record the result for the first time, on the monotonic clock. */
  readonly since: number;
  /** Why the store did not record the result the last time. */
  error: unknown;
}

export type AttemptEnd = AttemptResult["outcome"];

/** What the end of an attempt needs of its queue. */
export interface SettlingQueue<Tx> extends Pick<QueueOptions<Tx>, "store" | "logger" | "policy"> {
  /** Called when the store has recorded a result. */
  readonly recorded: () => void;
}

/** Records the end of one attempt. */
export class Settling<Tx> {
  readonly #queue: SettlingQueue<Tx>;
  readonly #lease: Lease;
  readonly #onSettling: () => void;
  readonly #over = Promise.withResolvers<void>();
  /** Whether the attempt has been given up. */
  isOver = false;
  /** The result that the store did not record, if there is one. */
  kept: KeptResult | undefined;

  /** @param onSettling - called when the attempt needs no slot any more, because the store only has to record the end */
  constructor(queue: SettlingQueue<Tx>, lease: Lease, onSettling: () => void) {
    this.#queue = queue;
    this.#lease = lease;
    this.#onSettling = onSettling;
  }

  /** Lets `record` look at the lease, because it is lost. */
  leaseLost(): void {
    this.#over.resolve();
  }

  /** Ends the attempt although the store has not recorded its end. */
  giveUp(): void {
    this.isOver = true;
    this.#over.resolve();
  }

  /**
   * Tells the store how the attempt ended, and lets the store decide whether the lease still holds. While the store fails,
   * keeps a result and tries again, also after the end of the lease: another attempt would run the callback again.
   *
   * @param lean - the outcome without the events that the handler adds by itself
   * @param instead - makes the outcome of a failed callback, for a result that the store refuses for good
   * @returns the failure of the user's writes, or how the attempt ended
   */
  async record(
    outcome: Outcome<Tx>,
    writes?: GuardedWrites<Tx>,
    { lean, instead }: Alternatives<Tx> = {},
  ): Promise<AttemptEnd | WriteFailure> {
    const lease = this.#lease;
    lease.ending = true;
    try {
      for (let tries = 0; ; tries += 1) {
        const tried = await this.#trySettle(outcome, writes !== undefined);
        if (!("error" in tried)) return tried.end;
        let { error } = tried;
        const failure = writes?.failureIn(error);
        if (failure) return failure;
        if (lean && tries > 0 && !(error instanceof NoAnswer)) {
          const again = await this.#trySettle(lean, writes !== undefined);
          if (!("error" in again)) return again.end;
          error = again.error;
        }
        if (instead && this.#isRefusedAt(performance.now()) && !(error instanceof NoAnswer)) {
          const again = await this.#trySettle(instead(error), false);
          if (!("error" in again)) return again.end === "lost" ? "lost" : { error, recordedAs: again.end };
        }
        if (lease.lost) return this.lost();
        // A released attempt has no result to keep.
        if (outcome.state !== "released") this.#keep(error);
        if (this.isOver || (!this.kept && !lease.held)) throw error;
        await withTimeout(WAITS[tries] ?? WAITS.at(-1)!, this.#over.promise);
        if (lease.lost) return this.lost();
      }
    } finally {
      this.kept = undefined;
    }
  }

  #isRefusedAt(now: number): boolean {
    return this.kept !== undefined && now - this.kept.since >= PATIENCE;
  }

  /** Never rejects. */
  async #trySettle(
    outcome: Outcome<Tx>,
    withWrites: boolean,
  ): Promise<{ readonly end: AttemptEnd } | WriteFailure> {
    const { claim } = this.#lease;
    try {
      const settling = this.#queue.store.settle(claim, outcome);
      // An attempt with functions for `event.atomically` keeps its slot: the functions are part of the work.
      // A failed attempt also keeps its slot: when an outage starts, no new attempt should take the slot at once.
      if (outcome.state === "done" && !withWrites) this.#onSettling();
      if (!(await this.#isSettled(settling, withWrites)))
        return this.#lease.claim === claim
          ? { end: this.lost() }
          : { error: new Error("the event was claimed anew") };
      if (outcome.state !== "released") this.#queue.recorded();
      return { end: outcome.state };
    } catch (error) {
      return { error };
    }
  }

  #keep(error: unknown): void {
    const { eventId } = this.#lease.claim;
    this.kept ??= { since: performance.now(), error };
    this.kept.error = error;
    this.#queue.logger.limited(
      "settle",
      "warn",
      `the store did not record the result of event ${eventId}. The handler keeps the result and tries again. Results that are kept take slots`,
      { eventId, error },
    );
  }

  /**
   * @returns the answer of `settle`, or `false` if the lease is lost before
   * @throws NoAnswer if the store does not answer
   */
  async #isSettled(settling: Promise<boolean>, withWrites: boolean): Promise<boolean> {
    const { leaseDuration, attemptTimeout } = this.#queue.policy;
    // The user's writes are part of the work.
    const patience = withWrites ? Math.max(leaseDuration, attemptTimeout) : leaseDuration;
    let isHeld: boolean | undefined;
    const answered = (async () => {
      isHeld = await settling;
    })();
    // Wait in two halves: when a blocked event loop goes on, timers ring before the store's answer is read.
    await withTimeout(patience / 2, Promise.race([answered, this.#over.promise]));
    if (isHeld === undefined) await withTimeout(patience / 2, Promise.race([answered, this.#over.promise]));
    // The store may have ended the attempt and leased the record to its next event. The answer to that claim may come first.
    if (isHeld === undefined && this.#lease.lost) await withTimeout(OVERTAKEN, answered);
    if (isHeld === undefined && !this.#lease.lost) {
      // The answer may come later, and then nobody waits for it.
      answered.catch(() => {});
      throw new NoAnswer(patience);
    }
    return isHeld === true;
  }

  lost(): AttemptEnd {
    const { eventId, ref } = this.#lease.claim;
    this.#queue.logger.warn(
      `the lease of event ${eventId} (${ref ?? "no record"}) was lost before the store recorded the result. Either another process has claimed the event since, and its callback runs twice, or someone has deleted the event`,
      { eventId, ref },
    );
    return "lost";
  }
}

class NoAnswer extends StayhookError {
  constructor(patience: number) {
    super(`the store did not answer within ${patience} ms`);
  }
}

interface WriteFailure {
  readonly error: unknown;
  /** How the attempt ended, if the store has recorded the failure already. */
  readonly recordedAs?: AttemptEnd;
}

interface Alternatives<Tx> {
  readonly lean?: Outcome<Tx> | undefined;
  readonly instead?: (error: unknown) => Outcome<Tx>;
}

/**
 * The functions that the user passed to `event.atomically`. The store runs them in its transaction. This class
 * distinguishes the failure of such a function from a failure of the store.
 */
export class GuardedWrites<Tx> {
  #failure: WriteFailure | undefined;
  /** Whether the functions have begun since the last failure of the store. */
  #began = false;
  /** How often in a row the store has lost its connection while the functions ran. */
  #interruptions = 0;
  readonly list: readonly Write<Tx>[];

  constructor(writes: readonly Write<Tx>[]) {
    this.list = writes.map((write, index) => (tx: Tx) => {
      // If the commit fails, the store runs all functions again. Forget the failure of the earlier run.
      if (index === 0) {
        this.#began = true;
        this.#failure = undefined;
      }
      try {
        const writing = write(tx);
        if (writing instanceof Promise) return writing.catch((error) => this.#failed(error));
        return isThenable(writing) ? this.#lazily(writing) : writing;
      } catch (error) {
        return this.#failed(error);
      }
    });
  }

  /**
   * Returns the failure of a function that the user passed to `event.atomically`; `undefined` if the store failed. If
   * the function failed, the store rejects with the function's error. If the connection was lost, the store rejects with
   * an error of its own. That may be an outage once. Twice in a row, the functions end the connection.
   */
  failureIn(rejection: unknown): WriteFailure | undefined {
    if (rejection instanceof InvalidWriteError) return { error: rejection };
    if (this.#failure && Object.is(this.#failure.error, rejection)) return this.#failure;
    // In a try that finds no connection, no function begins.
    if (!this.#began) return undefined;
    const isInterrupted =
      this.#failure !== undefined ||
      rejection instanceof InterruptedError ||
      !(rejection instanceof StayhookError);
    this.#interruptions = isInterrupted ? this.#interruptions + 1 : 0;
    this.#began = false;
    return this.#interruptions > 1 ? (this.#failure ?? { error: rejection }) : undefined;
  }

  /** Leaves it to the store to begin a lazy query: a synchronous store refuses the query, and must not run it. */
  #lazily(query: PromiseLike<unknown>): PromiseLike<unknown> {
    // A query's `then` may return nothing, or call both callbacks. A promise takes the first call.
    const run = () => new Promise<unknown>((resolve, reject) => void query.then(resolve, reject));
    return {
      // biome-ignore lint/suspicious/noThenProperty: the store awaits it
      then: (resolve, reject) =>
        run()
          .catch((error: unknown) => this.#failed(error))
          .then(resolve, reject),
    };
  }

  #failed(error: unknown): never {
    this.#failure = { error };
    throw error;
  }
}
