// Records the end of an attempt in the store.

import { isThenable, withTimeout } from "../async.ts";
import { InvalidWriteError, StayhookError } from "../errors.ts";
import type { Outcome, Write } from "../stores/event-store.ts";
import { LockedError } from "../stores/locked-error.ts";
import type { Lease } from "./leases.ts";
import { type KeptResult, Unrecorded } from "./unrecorded.ts";
import type { AttemptResult, QueueOptions } from "./work.ts";

/** How long to wait for the answer of `settle` after another claim of the record, ms. */
const OVERTAKEN = 1000;

export type AttemptEnd = AttemptResult["outcome"];

interface SettlingOptions {
  readonly unrecorded: Unrecorded;
  /** Called when the attempt needs no slot any more: its work is done, and the store only has to record the end. */
  readonly onSettling: () => void;
}

/** Records the end of one attempt. */
export class Settling<Tx> {
  readonly #queue: QueueOptions<Tx>;
  readonly #lease: Lease;
  readonly #options: SettlingOptions;
  readonly #over = Promise.withResolvers<void>();
  #isOver = false;
  /** The result that the store did not record, if there is one. */
  #kept: KeptResult | undefined;

  constructor(queue: QueueOptions<Tx>, lease: Lease, options: SettlingOptions) {
    this.#queue = queue;
    this.#lease = lease;
    this.#options = options;
  }

  /** Whether the attempt keeps a result that the store did not record. */
  get keepsResult(): boolean {
    return this.#kept !== undefined;
  }

  /** Whether the attempt has been given up. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Resolves when the attempt must not wait for the store any more. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Lets `record` look at the lease, because it is lost. */
  leaseLost(): void {
    this.#over.resolve();
  }

  /** Ends the attempt although the store has not recorded its end. */
  giveUp(): void {
    this.#isOver = true;
    this.#over.resolve();
  }

  /**
   * Tells the store how the attempt ended, and lets the store decide whether the lease still holds. While the store fails,
   * keeps a result and tries again, also after the end of the lease: another attempt would run the callback again.
   *
   * @param lean - the outcome without the events that the handler adds by itself
   * @returns the failure of the user's writes, or how the attempt ended
   */
  async record(
    outcome: Outcome<Tx>,
    writes?: GuardedWrites<Tx>,
    { lean }: { readonly lean?: Outcome<Tx> | undefined } = {},
  ): Promise<AttemptEnd | WriteFailure> {
    const { unrecorded } = this.#options;
    const lease = this.#lease;
    lease.ending = true;
    let failedAt: number | undefined;
    try {
      for (let tries = 0; ; tries += 1) {
        // If the lease was renewed after a failure, the store works. The next failure of writes is not an outage.
        const storeWorks = failedAt !== undefined && lease.renewedAt > failedAt;
        const tried = await this.#trySettle(outcome, writes !== undefined);
        if (!("error" in tried)) return tried.end;
        let { error } = tried;
        const failure =
          writes?.failureIn(error) ??
          (storeWorks && writes && !(error instanceof StayhookError) ? { error } : undefined);
        if (failure) return failure;
        if (lean && tries > 0 && !(error instanceof NoAnswer)) {
          const again = await this.#trySettle(lean, writes !== undefined);
          if (!("error" in again)) return again.end;
          error = again.error;
        }
        if (lease.lost) return this.lost();
        failedAt ??= performance.now();
        // The writes may be at fault, unless the error is the store's own. Then other attempts need not wait.
        const mayBeWrites = writes !== undefined && !(error instanceof StayhookError);
        const isAlone = mayBeWrites || error instanceof LockedError;
        this.#noteFailure(error, outcome, isAlone);
        if (this.#isOver || (!this.#kept && !lease.held)) throw error;
        const wait = Unrecorded.waitAfter(isAlone ? Math.min(tries, 2) : tries);
        await withTimeout(wait, Promise.race([this.#over.promise, unrecorded.works]));
        if (lease.lost) return this.lost();
      }
    } finally {
      unrecorded.forget(this.#kept);
      this.#kept = undefined;
    }
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
      if (outcome.state === "done" && !withWrites) this.#options.onSettling();
      if (!(await this.#isSettled(settling, withWrites)))
        return this.#lease.claim === claim
          ? { end: this.lost() }
          : { error: new Error("the event was claimed anew") };
      this.#options.unrecorded.recorded();
      return { end: outcome.state };
    } catch (error) {
      return { error };
    }
  }

  /** Keeps the result of a callback. A released attempt has none. */
  #noteFailure(error: unknown, { state }: Outcome<Tx>, isAlone: boolean): void {
    const { unrecorded } = this.#options;
    const { eventId } = this.#lease.claim;
    const noted = isAlone ? unrecorded.failedAlone(error, this.#kept) : unrecorded.failed(error, this.#kept);
    if (state === "released") return;
    if (this.#kept === undefined || this.#kept === noted) {
      this.#kept = noted;
      unrecorded.keep(noted);
    }
    this.#queue.logger.limited(
      "settle",
      "warn",
      `the store did not record the result of event ${eventId}. The handler keeps the result and tries again${isAlone ? "" : ". It claims no events meanwhile"}`,
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

class NoAnswer extends Error {
  constructor(patience: number) {
    super(`the store did not answer within ${patience} ms`);
  }
}

interface WriteFailure {
  readonly error: unknown;
}

/**
 * The functions that the user passed to `event.atomically`. The store runs them in its transaction. This class
 * distinguishes the failure of such a function from a failure of the store.
 */
export class GuardedWrites<Tx> {
  #failure: WriteFailure | undefined;
  readonly list: readonly Write<Tx>[];

  constructor(writes: readonly Write<Tx>[]) {
    this.list = writes.map((write, index) => (tx: Tx) => {
      // If the commit fails, the store runs all functions again. Forget the failure of the earlier run.
      if (index === 0) this.#failure = undefined;
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
   * the function failed, the store rejects with the function's error. If the connection was lost, the function also
   * fails, but the store rejects with its own error.
   */
  failureIn(rejection: unknown): WriteFailure | undefined {
    if (rejection instanceof InvalidWriteError) return { error: rejection };
    return this.#failure && Object.is(this.#failure.error, rejection) ? this.#failure : undefined;
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
