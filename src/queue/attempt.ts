import { atMost } from "../async.ts";
import { InvalidWriteError } from "../errors.ts";
import type { ClaimedEvent, Outcome, Write } from "../stores/event-store.ts";
import type { CircuitBreaker, Reading, Refusals } from "./circuit-breaker.ts";
import { GRACE, Lease } from "./leases.ts";
import { entryOf, outcomeOf } from "./retries.ts";
import type { AttemptResult, QueueOptions, Work, WorkFailure, WorkResult } from "./work.ts";

/** How long to wait before another try to record the end of an attempt, ms. */
const SETTLE_AGAIN = [50, 200, 1000] as const;

export type AttemptEnd = AttemptResult["outcome"];

interface AttemptOptions {
  readonly breaker: CircuitBreaker;
  readonly refusals: Refusals;
  /** When the lease ends, on the monotonic clock. */
  readonly leaseEndsAt: number;
  /** The work is done. The store does not have the end yet. */
  readonly onSettling: () => void;
  /** The end of an attempt of the same record that still runs here. The new attempt waits for it. */
  readonly after: Promise<unknown> | undefined;
}

/** Works on one claim and records how that ended. */
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
        `the store did not record how event ${eventId} ended. The event is handled again when its lease ends`,
        { eventId, error },
      );
      return "lost";
    });
  }

  get claim(): ClaimedEvent {
    return this.lease.claim;
  }

  /** Cuts the attempt off and gives its lease back. The event is due at once, and the attempt does not count. */
  release(): void {
    this.#run.cut("released");
  }

  #answered(): void {
    this.#options.breaker.recordAnswer(this.#reading);
    // An event without a record reads nothing, so it proves no read.
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

  /** Parks an event that killed its process in each attempt. The store counts an attempt when it begins. */
  async #parkDeadly(): Promise<AttemptResult> {
    const error = new Error(
      `The process ended during each of ${this.claim.attempts - 1} attempts. Does the callback exit or use up the memory?`,
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
        // The user's writes are a part of the work. A failure may be the first sign of an outage.
        if (outcome.state === "done" && !writes?.list) this.#options.onSettling();
        const recorded = await Promise.race([settling, this.#lost.promise]);
        return recorded === true ? outcome.state : this.#giveUp();
      } catch (error) {
        const failure = writes?.failureIn(error);
        if (failure) return failure;
        const { eventId } = this.claim;
        this.#queue.logger.warn(`the store did not record how event ${eventId} ended. Trying again`, {
          eventId,
          error,
        });
        await atMost(SETTLE_AGAIN[tries] ?? SETTLE_AGAIN[2], [this.#lost.promise]);
      }
    }
    return this.#giveUp();
  }

  #giveUp(): AttemptEnd {
    const { eventId, ref } = this.claim;
    this.#queue.logger.warn(
      `the lease of event ${eventId} (${ref ?? "no record"}) was lost before the store recorded the result. The event is handled again`,
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

/** The key of the event's record in the circuit breaker and in the limit of reads. */
function recordOf({ ref, eventId }: ClaimedEvent): string {
  return ref ?? eventId;
}

interface WriteFailure {
  readonly error: unknown;
}

/** The user's writes, which the store runs in its transaction. Tells a failure of a write from a failure of the store. */
class GuardedWrites<Tx> {
  #failure: WriteFailure | undefined;
  readonly list: readonly Write<Tx>[] | undefined;

  constructor(writes: readonly Write<Tx>[]) {
    if (writes.length === 0) return;
    this.list = writes.map((write, index) => (tx: Tx) => {
      // The store runs all writes again if its commit fails.
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
   * The failure of a write; `undefined` if the store failed. A store rejects with the error that a write threw. If the
   * connection is lost, the write throws as well, but the store rejects with an error of its own.
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

/** Why a run is cut off: the handler closes, the lease is about to end, the lease is lost, or the caller aborts. */
type Cut = "released" | "expiring" | "lost" | "aborted";

interface CancellableRunOptions {
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
   * Whether a result after the cut counts. A callback that finished in time counts while the process holds the lease. A
   * recheck that could not read its record is done without an answer: at a timeout that counts, at another cut it reads again.
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
  released: "The webhook handler is closing; the event will be handled again.",
  expiring:
    "The lease of the event could not be renewed and is about to end; the event will be handled again.",
  lost: "The lease of the event was lost; another process may be handling it.",
  aborted: "The caller aborted.",
};
