// One attempt: runs the work of a claim, and settles it in the store.

import { isThenable, withTimeout } from "../async.ts";
import { now } from "../clock.ts";
import { InvalidWriteError, StayhookError } from "../errors.ts";
import type { Outcome, Write } from "../stores/event-store.ts";
import { firingId } from "../stores/firing-id.ts";
import { LockedError } from "../stores/locked-error.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { CancellableRun } from "./cancellable-run.ts";
import type { TrackedRead } from "./circuit.ts";
import type { CircuitBreaker, Verdict } from "./circuit-breaker.ts";
import { Lease } from "./leases.ts";
import type { ReadLimits } from "./refused-reads.ts";
import { entryOf, outcomeOf } from "./retries.ts";
import { answerOf } from "./store-call.ts";
import { type KeptResult, Unrecorded } from "./unrecorded.ts";
import {
  type AttemptResult,
  type Lane,
  type Outage,
  type QueueOptions,
  recordOf,
  type WorkFailure,
  type WorkResult,
} from "./work.ts";

/** How long to wait for the answer of `settle` after another claim of the record, ms. */
const OVERTAKEN = 1000;

export type AttemptEnd = AttemptResult["outcome"];

interface AttemptOptions {
  readonly breaker: CircuitBreaker;
  readonly unrecorded: Unrecorded;
  readonly readLimits: ReadLimits;
  readonly lane: Lane;
  /** When the lease ends, on the monotonic clock. */
  readonly leaseEndsAt: number;
  /** Called when the attempt needs no slot any more: its work is done, and the store only has to record the end. */
  readonly onSettling: () => void;
  /** The end of an earlier attempt at the same record, if one still runs. The new attempt waits for this promise. */
  readonly after: Promise<unknown> | undefined;
}

/** Runs the work for one claim, and records the result in the store. */
export class Attempt<Tx> {
  readonly lease: Lease;
  /** Never rejects. */
  readonly ended: Promise<AttemptEnd>;
  /** The events that the attempt has added, and that are due at once. */
  readonly added: string[] = [];

  readonly #queue: QueueOptions<Tx>;
  readonly #options: AttemptOptions;
  readonly #reading: TrackedRead;
  /** Whether the attempt has used up one of the limited reads. */
  #hasRead = false;
  readonly #startedAt = performance.now();
  readonly #run: CancellableRun<Tx>;
  /** Resolves when the attempt must not wait for the store any more. */
  readonly #over = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<void>();
  /** Whether the attempt must not wait for the store any more. */
  #isOver = false;
  /** The result that the store did not record, if there is one. */
  #kept: KeptResult | undefined;

  constructor(claim: ClaimedEvent, queue: QueueOptions<Tx>, options: AttemptOptions) {
    this.#queue = queue;
    this.#options = options;
    this.#reading = options.breaker.begin(claim.ref, options.lane, claim.outageFor);
    this.#run = new CancellableRun(queue.work, claim, {
      attemptTimeout: queue.policy.attemptTimeout,
      onAnswered: () => this.#answered(),
    });
    this.lease = new Lease(claim, options.leaseEndsAt, {
      onExpiring: () => this.#run.cut("expiring"),
      onLost: () => {
        this.#run.cut("lost");
        this.#over.resolve();
      },
    });
    this.ended = this.#attempt().catch((error) => {
      const { eventId } = claim;
      queue.logger.limited(
        "unrecorded",
        "error",
        `the store did not confirm that it recorded the result of event ${eventId}. If it did not, the event is handled again when its lease ends`,
        { eventId, error },
      );
      return "lost" as const;
    });
  }

  get claim(): ClaimedEvent {
    return this.lease.claim;
  }

  /** Aborts the attempt and releases its lease. The event is due at once, and the attempt does not count. */
  release(): void {
    this.#run.cut("released");
    this.#released.resolve();
  }

  /** Whether the attempt keeps a result that the store did not record. */
  get keepsResult(): boolean {
    return this.#kept !== undefined;
  }

  /**
   * Goes on under a new claim of the same event if the attempt keeps a result, so that no second attempt runs the
   * callback again.
   *
   * @returns whether the attempt takes the claim
   */
  takeOver(claim: ClaimedEvent, leaseEndsAt: number): boolean {
    const { eventId, timestamp, receivedAt, sequence } = this.claim;
    const isSame =
      claim.eventId === eventId &&
      claim.timestamp === timestamp &&
      claim.receivedAt === receivedAt &&
      claim.sequence === sequence;
    if (!this.keepsResult || this.#isOver || !isSame) return false;
    this.lease.replace(claim, leaseEndsAt);
    return true;
  }

  /** Ends the attempt although the store has not recorded its end. */
  giveUp(): void {
    this.#isOver = true;
    this.#over.resolve();
  }

  #answered(): void {
    // An event without a record needs no read, so its success does not show that reads succeed.
    if (this.claim.ref === null) return;
    const { breaker, readLimits, lane } = this.#options;
    this.#hasRead = true;
    breaker.recordAnswer(this.#reading, true);
    readLimits.recordSuccess(lane.account);
  }

  async #attempt(): Promise<AttemptEnd> {
    try {
      const { after } = this.#options;
      // Await even `undefined`: a callback must not block the event loop before the queue knows all leases of a claim.
      await (after && Promise.race([after, this.#run.wasCut]));
      // Skip a claim whose lease has expired: another process may work on the event now.
      if (!this.lease.held) return await this.#release();
      const run = (): Promise<AttemptResult> => this.#process();
      const { process } = this.#queue;
      return (await (process ? process(this.claim, run) : run())).outcome;
    } finally {
      const { breaker, readLimits, lane } = this.#options;
      breaker.end(this.#reading);
      if (!this.#hasRead) readLimits.of(lane.account).giveBack();
    }
  }

  async #release(): Promise<AttemptEnd> {
    return (await this.#settle({ state: "released" })) as AttemptEnd;
  }

  async #process(): Promise<AttemptResult> {
    if (this.claim.attempts > this.#queue.policy.maxAttempts) return this.#parkSpent();
    this.#queue.observe({ kind: "started", ...this.#about, lateness: latenessOf(this.claim) });
    const result = await this.#run.run();
    if (result.state !== "cut") return this.#end(result);
    return { outcome: result.by === "lost" ? this.#lost() : await this.#release() };
  }

  /** Parks an event that has no attempt left: its last attempt was lost, or `maxAttempts` was lowered meanwhile. */
  async #parkSpent(): Promise<AttemptResult> {
    const { eventId, attempts } = this.claim;
    const get = answerOf("get", async () => this.#queue.store.get(eventId));
    const last = (await get.catch(() => undefined))?.history.at(-1);
    const error = new Error(
      last?.outcome === "lost"
        ? `The process ended during attempt ${attempts - 1}, the last allowed attempt, or the store did not record its result. Does the callback call process.exit() or run out of memory?`
        : `The event has had ${attempts - 1} attempts, and maxAttempts is ${this.#queue.policy.maxAttempts} now. Replay the event to try again.`,
    );
    return this.#settleFailure({ reason: "callback", error, maxAttempts: 0 });
  }

  async #end(result: WorkResult<Tx>): Promise<AttemptResult> {
    if (result.state === "failed") return this.#settleFailure(result);
    const { state, type, snapshot, writes = [], events = [], extra = [], remove } = result;
    const guarded = writes.length > 0 ? new GuardedWrites(writes) : undefined;
    const entry = entryOf({ duration: this.#duration });
    const end = { state, type, record: snapshot, entry, writes: guarded?.list, remove } as const;
    const settled = await this.#settle({ ...end, events: [...extra, ...events] }, guarded, {
      lean: extra.length > 0 ? { ...end, events } : undefined,
    });
    if (typeof settled !== "string")
      return this.#settleFailure({ reason: "callback", error: settled.error, type });
    if (settled === "done") {
      for (const { event, dueIn = 0 } of [...extra, ...events])
        if (dueIn === 0) this.added.push(firingId(event));
      const status = snapshot?.snapshot.status;
      this.#queue.observe({ kind: "done", ...this.#aboutEnd(type), status });
    }
    return { outcome: settled, type };
  }

  async #settleFailure(failure: WorkFailure): Promise<AttemptResult> {
    const { claim } = this;
    const { breaker, readLimits, lane } = this.#options;
    const { outage, error, reason, type, events } = failure;
    this.#hasRead ||= failure.refused === true || outage !== undefined;
    // A refusal shows that the platform is up.
    if (failure.refused) breaker.recordAnswer(this.#reading);
    // The attempt keeps its slot until it is clear whether this is an outage, so that no other read begins meanwhile.
    const verdict = outage && (await this.#judged(outage, error));
    if (failure.refused || verdict === "record" || verdict === "unclear")
      readLimits.recordRefusal(lane.account, recordOf(claim), error);
    const limit = readLimits.of(lane.account);
    if (outage?.limited) limit.recordLimit();
    const outcome = outcomeOf(failure, claim, this.#queue.policy, {
      duration: this.#duration,
      paused: verdict === "outage",
      up: breaker.isUp(lane),
      limiting: limit.limiting,
    });
    const end = await this.#settle({ ...outcome, events });
    // An attempt that waits for another event of its record has not failed, so nothing is observed.
    if (failure.waitFor !== undefined)
      return { outcome: end === "retrying" ? "waiting" : (end as AttemptEnd), type };
    if (end === outcome.state) {
      const event = { ...this.#aboutEnd(type), reason, error };
      this.#queue.observe(
        outcome.state === "parked"
          ? { kind: "parked", ...event }
          : { kind: "failed", ...event, retryIn: outcome.in },
      );
    }
    return { outcome: end as AttemptEnd, type, reason, error };
  }

  async #judged(outage: Outage, error: unknown): Promise<Verdict> {
    const { breaker } = this.#options;
    const judged = breaker.recordOutage(this.#reading, this.claim.outages, outage, error);
    // A drain or the handler may end before the witnesses answer.
    return (await Promise.race([judged, this.#released.promise, this.#over.promise])) ?? "unclear";
  }

  /**
   * Tells the store how the attempt ended, and lets the store decide whether the lease still holds. While the store fails,
   * keeps a result and tries again, also after the end of the lease: another attempt would run the callback again.
   *
   * @param lean - the outcome without the events that the handler adds by itself
   * @returns the failure of the user's writes, or how the attempt ended
   */
  async #settle(
    outcome: Outcome<Tx>,
    writes?: GuardedWrites<Tx>,
    { lean }: { readonly lean?: Outcome<Tx> | undefined } = {},
  ): Promise<AttemptEnd | WriteFailure> {
    const { unrecorded } = this.#options;
    const { lease } = this;
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
        if (lease.lost) return this.#lost();
        failedAt ??= performance.now();
        // The writes may be at fault, unless the error is the store's own. Then other attempts need not wait.
        const mayBeWrites = writes !== undefined && !(error instanceof StayhookError);
        const isAlone = mayBeWrites || error instanceof LockedError;
        this.#noteFailure(error, outcome, isAlone);
        if (this.#isOver || (!this.#kept && !lease.held)) throw error;
        const wait = Unrecorded.waitAfter(isAlone ? Math.min(tries, 2) : tries);
        await withTimeout(wait, Promise.race([this.#over.promise, unrecorded.works]));
        if (lease.lost) return this.#lost();
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
    const { claim } = this;
    try {
      const settling = this.#queue.store.settle(claim, outcome);
      // An attempt with functions for `event.atomically` keeps its slot: the functions are part of the work.
      // A failed attempt also keeps its slot: when an outage starts, no new attempt should take the slot at once.
      if (outcome.state === "done" && !withWrites) this.#options.onSettling();
      if (!(await this.#isSettled(settling, withWrites)))
        return this.claim === claim
          ? { end: this.#lost() }
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
    const { eventId } = this.claim;
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
    if (isHeld === undefined && this.lease.lost) await withTimeout(OVERTAKEN, answered);
    if (isHeld === undefined && !this.lease.lost) {
      // The answer may come later, and then nobody waits for it.
      answered.catch(() => {});
      throw new NoAnswer(patience);
    }
    return isHeld === true;
  }

  #lost(): AttemptEnd {
    const { eventId, ref } = this.claim;
    this.#queue.logger.warn(
      `the lease of event ${eventId} (${ref ?? "no record"}) was lost before the store recorded the result. Either another process has claimed the event since, and its callback runs twice, or someone has deleted the event`,
      { eventId, ref },
    );
    return "lost";
  }

  get #about() {
    const { eventId, ref, attempts, receivedAt } = this.claim;
    return { eventId, ref, attempt: attempts, receivedAt: new Date(receivedAt) };
  }

  #aboutEnd(type: string | undefined) {
    return { ...this.#about, type, duration: this.#duration };
  }

  get #duration(): number {
    return performance.now() - this.#startedAt;
  }
}

/** How late the first attempt at a timer starts, ms. It is `undefined` for other attempts. */
function latenessOf({ source, timestamp, attempts, replayed }: ClaimedEvent): number | undefined {
  return source === "timer" && attempts === 1 && !replayed
    ? Math.max(0, now() - Date.parse(timestamp))
    : undefined;
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
class GuardedWrites<Tx> {
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
