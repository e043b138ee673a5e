import { atMost } from "../async.ts";
import { InvalidWriteError } from "../errors.ts";
import type { ClaimedEvent, Outcome, Write } from "../stores/event-store.ts";
import type { CircuitBreaker, Reading, Refusals } from "./circuit-breaker.ts";
import { GRACE, Lease } from "./leases.ts";
import { entryOf, outcomeOf } from "./retries.ts";
import type { AttemptResult, QueueOptions, Work, WorkFailure, WorkResult } from "./work.ts";

/** The waits between tries to record the end of an attempt, ms. */
const SETTLE_AGAIN = [50, 200, 1000] as const;

export type AttemptEnd = AttemptResult["outcome"];

interface AttemptOptions {
  readonly breaker: CircuitBreaker;
  readonly refusals: Refusals;
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

  readonly #queue: QueueOptions<Tx>;
  readonly #options: AttemptOptions;
  readonly #reading: Reading;
  readonly #startedAt = performance.now();
  readonly #run: CancellableRun<Tx>;
  readonly #lost = Promise.withResolvers<"lost">();

  constructor(claim: ClaimedEvent, queue: QueueOptions<Tx>, options: AttemptOptions) {
    this.#queue = queue;
    this.#options = options;
    this.#reading = options.breaker.begin(recordOf(claim));
    this.#run = new CancellableRun(queue.work, claim, {
      attemptTimeout: queue.policy.attemptTimeout,
      onAnswered: () => this.#answered(),
    });
    this.lease = new Lease(claim, options.leaseEndsAt, {
      onExpiring: () => this.#run.cut("expiring"),
      onLost: () => {
        this.#run.cut("lost");
        this.#lost.resolve("lost");
      },
    });
    this.ended = this.#attempt().catch((error) => {
      const { eventId } = claim;
      queue.logger.error(
        `the store did not record the result of event ${eventId}. The event will be handled again when its lease ends`,
        { eventId, error },
      );
      return "lost";
    });
  }

  get claim(): ClaimedEvent {
    return this.lease.claim;
  }

  /** Aborts the attempt and releases its lease. The event is due at once, and the attempt does not count. */
  release(): void {
    this.#run.cut("released");
  }

  #answered(): void {
    this.#options.breaker.recordAnswer(this.#reading);
    // An event without a record needs no read, so its success does not show that reads succeed.
    if (this.claim.ref !== null) this.#options.refusals.recordSuccess();
  }

  async #attempt(): Promise<AttemptEnd> {
    if (this.#options.after) await Promise.race([this.#options.after, this.#run.wasCut]);
    // Skip a claim whose lease has expired: another process may work on the event now.
    if (!this.lease.held) return this.#giveUp();
    const run = (): Promise<AttemptResult> => this.#process();
    const { process } = this.#queue;
    return (await (process ? process(this.claim, run) : run())).outcome;
  }

  async #process(): Promise<AttemptResult> {
    if (this.claim.attempts > this.#queue.policy.maxAttempts) return this.#parkDeadly();
    this.#queue.observe({ kind: "started", ...this.#about });
    const result = await this.#run.run();
    if (result.state !== "cut") return this.#end(result);
    return { outcome: result.by === "lost" ? this.#giveUp() : await this.#settle({ state: "released" }) };
  }

  /** Parks an event whose last allowed attempt began but recorded no result, probably because its process died. */
  async #parkDeadly(): Promise<AttemptResult> {
    const error = new Error(
      `The process ended during attempt ${this.claim.attempts - 1}, the last allowed attempt. Does the callback call process.exit() or run out of memory?`,
    );
    return this.#settleFailure({ reason: "callback", error, maxAttempts: 0 });
  }

  async #end(result: WorkResult<Tx>): Promise<AttemptResult> {
    if (result.state === "failed") return this.#settleFailure(result);
    const writes = new GuardedWrites(result.writes ?? []);
    const { state, type, record } = result;
    const entry = entryOf({ ...result, duration: this.#duration });
    const settled = await this.#settle({ state, type, record, entry, writes: writes.list }, writes);
    if (typeof settled === "string") {
      if (settled === "done") {
        const status = record?.snapshot.status;
        this.#queue.observe({ kind: "done", ...this.#aboutEnd(type), status });
      }
      return { outcome: settled, type };
    }
    return this.#settleFailure({ reason: "callback", error: settled.error, type });
  }

  async #settleFailure(failure: WorkFailure): Promise<AttemptResult> {
    const { claim } = this;
    const { breaker, refusals } = this.#options;
    const { outage, error: cause } = failure;
    if (outage) breaker.recordOutage(this.#reading, claim.outages === 0, outage, cause);
    else if (failure.refused) {
      // A refusal shows that the platform is up.
      breaker.recordAnswer(this.#reading);
      refusals.recordRefusal(recordOf(claim), cause);
    }
    const outcome = outcomeOf(failure, claim, this.#queue.policy, {
      duration: this.#duration,
      paused: breaker.pause !== undefined,
      limiting: refusals.limiting,
    });
    const end = await this.#settle(outcome);
    const { reason, error, type } = failure;
    if (end === outcome.state) {
      const event = { ...this.#aboutEnd(type), reason, error };
      this.#queue.observe(
        outcome.state === "parked"
          ? { kind: "parked", ...event }
          : { kind: "failed", ...event, retryIn: outcome.in },
      );
    }
    return { outcome: end, type, reason, error };
  }

  async #settle(outcome: Outcome<Tx>): Promise<AttemptEnd>;
  async #settle(outcome: Outcome<Tx>, writes: GuardedWrites<Tx>): Promise<AttemptEnd | WriteFailure>;
  async #settle(outcome: Outcome<Tx>, writes?: GuardedWrites<Tx>): Promise<AttemptEnd | WriteFailure> {
    this.lease.ending = true;
    for (let tries = 0; this.lease.held; tries += 1) {
      try {
        const settling = this.#queue.store.settle(this.claim, outcome);
        // An attempt with functions for `event.atomically` keeps its slot: the functions are part of the work.
        // A failed attempt also keeps its slot: when an outage starts, no new attempt should take the slot at once.
        if (outcome.state === "done" && !writes?.list) this.#options.onSettling();
        const recorded = await Promise.race([settling, this.#lost.promise]);
        return recorded === true ? outcome.state : this.#giveUp();
      } catch (error) {
        const failure = writes?.failureIn(error);
        if (failure) return failure;
        const { eventId } = this.claim;
        this.#queue.logger.warn(
          `the store did not record the result of event ${eventId}. The handler will try to record the result again`,
          { eventId, error },
        );
        await atMost(SETTLE_AGAIN[tries] ?? SETTLE_AGAIN[2], [this.#lost.promise]);
      }
    }
    return this.#giveUp();
  }

  #giveUp(): AttemptEnd {
    const { eventId, ref } = this.claim;
    this.#queue.logger.warn(
      `the lease of event ${eventId} (${ref ?? "no record"}) was lost before the store recorded the result. The event will be handled again`,
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

/** Returns the key under which `CircuitBreaker` and `Refusals` count the event's record. */
function recordOf({ ref, eventId }: ClaimedEvent): string {
  return ref ?? eventId;
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
  readonly list: readonly Write<Tx>[] | undefined;

  constructor(writes: readonly Write<Tx>[]) {
    if (writes.length === 0) return;
    this.list = writes.map((write, index) => (tx: Tx) => {
      // If the commit fails, the store runs all functions again. Forget the failure of the earlier run.
      if (index === 0) this.#failure = undefined;
      try {
        const writing = write(tx);
        return writing instanceof Promise ? writing.catch((error) => this.#failed(error)) : writing;
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

  #failed(error: unknown): never {
    this.#failure = { error };
    throw error;
  }
}

/** Why a run is cut off. A run is `released` when the handler closes or a drain stops. */
type Cut = "released" | "expiring" | "lost" | "aborted";

interface CancellableRunOptions {
  readonly attemptTimeout: number;
  readonly onAnswered?: () => void;
}

/** Runs the work of an event. `cut` aborts the signal of the work, which then has {@link GRACE} ms to end. */
export class CancellableRun<Tx> {
  readonly #work: Work<Tx>;
  readonly #claim: ClaimedEvent;
  readonly #options: CancellableRunOptions;
  readonly #abort = new AbortController();
  readonly #cut = Promise.withResolvers<{ readonly by: Cut | "timeout"; readonly reason: unknown }>();
  readonly #left = Promise.withResolvers<void>();
  #cutBy: { readonly by: Cut; readonly reason: unknown } | undefined;
  /** `true` if the platform has answered or the event has no record. A timeout then counts as a failed callback. */
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

  /** Only the first cut counts, but a later loss of the lease ends the grace period, because the lock is lost. */
  cut(by: Cut, reason: unknown = new DOMException(REASONS[by], "AbortError")): void {
    if (this.#abort.signal.aborted && by === "lost") this.#left.resolve();
    this.#cutBy ??= { by, reason };
    this.#cut.resolve({ by, reason });
  }

  /** Never rejects. A timeout results in the state `failed`, not `cut`. */
  async run(): Promise<
    WorkResult<Tx> | { readonly state: "cut"; readonly by: Cut; readonly reason: unknown }
  > {
    if (this.#cutBy) return { state: "cut", ...this.#cutBy };
    const { attemptTimeout } = this.#options;
    const timer = setTimeout(() => {
      const message = `the attempt took longer than ${attemptTimeout} ms (attemptTimeout)`;
      const reason = new DOMException(message, "TimeoutError");
      this.#cut.resolve({ by: "timeout", reason });
    }, attemptTimeout);
    try {
      const working = this.#start();
      const first = await Promise.race([working, this.#cut.promise]);
      if ("state" in first) return first;
      const { by, reason } = first;
      this.#abort.abort(reason);
      const late = await Promise.race([working, atMost(GRACE, [this.#left.promise])]);
      if (late?.state === "done" && this.#takesLate(by)) return late;
      if (by !== "timeout") return { state: "cut", by, reason };
      return this.#inCallback
        ? { state: "failed", reason: "callback", error: reason }
        : { state: "failed", reason: "unavailable", error: reason, outage: { everything: false } };
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Whether a `done` result that comes after a cut counts. After the cuts `released` and `expiring`, the result of
   * a callback counts. After a timeout, a result counts only if the platform has not answered. Only a recheck can be
   * `done` without an answer.
   */
  #takesLate(by: Cut | "timeout"): boolean {
    if (by === "timeout") return !this.#inCallback;
    return this.#inCallback && (by === "released" || by === "expiring");
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
  released: "The webhook handler is closing, or drain() has ended. The event will be handled again.",
  expiring:
    "The lease of the event could not be renewed and is about to end. The event will be handled again.",
  lost: "The lease of the event was lost. Another process may be handling the event.",
  aborted: "The caller of process() aborted the attempt.",
};
