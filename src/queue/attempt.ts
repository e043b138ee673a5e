import type { ClaimedEvent, Outcome } from "../stores/store.ts";
import { Lease } from "./lease.ts";
import type { Evidence } from "./outage.ts";
import { describeThrown, outcomeOf } from "./outcome.ts";
import type { QueueOptions } from "./policy.ts";
import { atMost } from "./timer.ts";
import type { WorkFailure, WorkResult } from "./work.ts";

/** How long the record stays locked after the signal has aborted, so that the callback can clean up, ms. */
export const GRACE = 3000;
/** Waits between two tries to record an attempt's end, ms. */
const SETTLE_AGAIN = [50, 200, 1000] as const;

/** How an attempt ended here. `lost`: another process may have the event now, and nothing could be recorded. */
export type AttemptEnd = "done" | "retrying" | "parked" | "released" | "lost";

type Cut = "timeout" | "released" | "lost";

/** One claim, from its start to the recording of its end. */
export class Attempt<Tx> {
  readonly lease: Lease;
  /** Never rejects. */
  readonly ended: Promise<AttemptEnd>;

  readonly #options: QueueOptions<Tx>;
  readonly #evidence: Evidence;
  readonly #abort = new AbortController();
  readonly #startedAt = performance.now();
  readonly #cut = new Signal<Cut>();
  readonly #lost = new Signal<"lost">();
  /** The other side has answered, or there is nothing to ask it: what happens now is the callback's doing. */
  #inCallback: boolean;

  constructor(claim: ClaimedEvent, leaseEndsAt: number, options: QueueOptions<Tx>, evidence: Evidence) {
    this.#options = options;
    this.#evidence = evidence;
    this.#inCallback = claim.ref === null;
    this.lease = new Lease(claim, leaseEndsAt, () => {
      this.#cut.give("lost");
      this.#lost.give("lost");
    });
    this.ended = this.#run().catch((error) => {
      options.logger.error(`stayhook: event ${claim.eventId} could not be ended (${describeThrown(error)})`);
      return "lost";
    });
  }

  get claim(): ClaimedEvent {
    return this.lease.claim;
  }

  /** Cuts the attempt off and gives its lease back: due now, not counted. */
  release(): void {
    this.#cut.give("released");
  }

  async #run(): Promise<AttemptEnd> {
    if (this.claim.attempts > this.#options.policy.maxAttempts) return this.#parkDeadly();
    const work = this.#work();
    const timer = setTimeout(() => this.#cut.give("timeout"), this.#options.policy.attemptTimeout);
    try {
      const first = await Promise.race([work, this.#cut.given]);
      return typeof first === "string" ? await this.#cutShort(first, work) : await this.#end(first);
    } finally {
      clearTimeout(timer);
    }
  }

  async #work(): Promise<WorkResult<Tx>> {
    try {
      return await this.#options.work(this.claim, {
        signal: this.#abort.signal,
        answered: () => {
          this.#inCallback = true;
          this.#evidence.answered();
        },
      });
    } catch (error) {
      return { state: "failed", reason: "callback", error };
    }
  }

  /** Attempts are counted when they begin: an event that was begun too often and never ended has killed its process each time. */
  async #parkDeadly(): Promise<AttemptEnd> {
    const error = new Error(`its process ended during each of ${this.claim.attempts - 1} attempts`);
    return this.#settleFailure({ reason: "callback", error, maxAttempts: 0 });
  }

  async #cutShort(cut: Cut, work: Promise<unknown>): Promise<AttemptEnd> {
    this.#abort.abort(
      new DOMException(ABORT_REASONS[cut], cut === "timeout" ? "TimeoutError" : "AbortError"),
    );
    // With the lease lost there is no lock left to keep, only a callback that may still be cleaning up.
    await atMost(GRACE, cut === "lost" ? [work] : [work, this.#lost.given]);
    if (cut === "lost") return this.#giveUp();
    if (cut === "released") return this.#settle({ state: "released" });
    const error = new Error(`cut off after ${this.#options.policy.attemptTimeout} ms (attemptTimeout)`);
    return this.#settleFailure(
      this.#inCallback
        ? { reason: "callback", error }
        : { reason: "unavailable", error, outage: { everything: false } },
    );
  }

  async #end(result: WorkResult<Tx>): Promise<AttemptEnd> {
    if (result.state === "failed") return this.#settleFailure(result);
    const writes = new GuardedWrites(result.writes ?? []);
    const { state, type, status } = result;
    const settled = await this.#settle({ state, type, status, writes: writes.list }, () => writes.failure);
    if (typeof settled === "string") {
      if (settled === "done") {
        this.#options.observe({ kind: "done", ...this.#about(type), status, duration: this.#duration });
      }
      return settled;
    }
    return this.#settleFailure({ reason: "callback", error: settled.error, type });
  }

  async #settleFailure(failure: WorkFailure): Promise<AttemptEnd> {
    const { claim } = this;
    if (failure.outage) this.#evidence.unreachable(claim.outages === 0, failure.outage, failure.error);
    else if (failure.refused) this.#evidence.refused(failure.error);
    const outcome = outcomeOf(failure, claim, this.#options.policy);
    const end = await this.#settle(outcome);
    if (end !== outcome.state) return end;
    const event = { ...this.#about(failure.type), reason: failure.reason, error: failure.error };
    this.#options.observe(
      outcome.state === "parked"
        ? { kind: "parked", ...event }
        : { kind: "failed", ...event, retryIn: outcome.in, duration: this.#duration },
    );
    return end;
  }

  async #settle(outcome: Outcome<Tx>): Promise<AttemptEnd>;
  async #settle<F>(outcome: Outcome<Tx>, writeFailure: () => F | undefined): Promise<AttemptEnd | F>;
  async #settle<F>(outcome: Outcome<Tx>, writeFailure?: () => F | undefined): Promise<AttemptEnd | F> {
    for (let tries = 0; this.lease.held; tries += 1) {
      try {
        const recorded = await Promise.race([
          this.#options.store.settle(this.claim, outcome),
          this.#lost.given,
        ]);
        return recorded === true ? outcome.state : this.#giveUp();
      } catch (error) {
        const failure = writeFailure?.();
        if (failure) return failure;
        this.#options.logger.warn(
          `stayhook: the end of event ${this.claim.eventId} could not be recorded, will try again (${describeThrown(error)})`,
        );
        await atMost(SETTLE_AGAIN[tries] ?? SETTLE_AGAIN[2], [this.#lost.given]);
      }
    }
    return this.#giveUp();
  }

  #giveUp(): AttemptEnd {
    const { eventId, ref } = this.claim;
    this.#options.logger.warn(
      `stayhook: the lease of event ${eventId} (${ref ?? "no record"}) was lost before its end could be recorded; it will be handled again`,
    );
    return "lost";
  }

  #about(type: string | undefined) {
    const { eventId, ref, attempts } = this.claim;
    return { eventId, ref, type, attempt: attempts };
  }

  get #duration(): number {
    return performance.now() - this.#startedAt;
  }
}

const ABORT_REASONS: Record<Cut, string> = {
  timeout: "The attempt took longer than attemptTimeout and was cut off.",
  released: "The webhook handler is closing; the event will be handled again.",
  lost: "The lease of the event was lost; another process may be handling it.",
};

/** A promise that is resolved from outside. */
class Signal<T> {
  give!: (value: T) => void;
  readonly given = new Promise<T>((resolve) => {
    this.give = resolve;
  });
}

/** The user's writes, which the store runs inside its transaction; tells their failure from the store's own. */
class GuardedWrites<Tx> {
  failure: { error: unknown } | undefined;
  readonly list: readonly ((tx: Tx) => void | Promise<void>)[] | undefined;

  constructor(writes: readonly ((tx: Tx) => void | Promise<void>)[]) {
    if (writes.length === 0) return;
    this.list = writes.map((write, index) => (tx: Tx) => {
      // The store runs them again, from the first, when its commit failed.
      if (index === 0) this.failure = undefined;
      try {
        const writing = write(tx);
        return writing instanceof Promise ? writing.catch((error) => this.#failed(error)) : writing;
      } catch (error) {
        return this.#failed(error);
      }
    });
  }

  #failed(error: unknown): never {
    this.failure = { error };
    throw error;
  }
}
