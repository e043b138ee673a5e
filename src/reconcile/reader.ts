import { pause } from "../async.ts";
import { APIError } from "../client/errors.ts";
import type { RequestOptions } from "../client/options.ts";
import type { Backoff } from "../queue/backoff.ts";
import type { Outage } from "../queue/work.ts";
import { fetchFailure } from "../webhooks/processing/failures.ts";
import type { Incomplete } from "./options.ts";

/** How often a pass tries to read one record while the platform is out of reach. */
const TRIES = 3;
/** How many rounds of reads without an answer stop the pass. */
const ROUNDS = 5;
/** The longest wait within a pass, ms. If the platform asks for more, the pass stops and the next one goes on. */
const LONGEST_RETRY_AFTER = 60_000;

/** Why a pass stops before its end. The first reason counts. */
export class StopReason {
  readonly #abort = new AbortController();
  #reason: Incomplete | undefined;
  #retryAfter: number | undefined;

  /** Why the pass stops; `undefined` while it may go on. */
  get reason(): Incomplete | undefined {
    return this.#reason;
  }

  /** The wait that the platform asked for, ms. */
  get retryAfter(): number | undefined {
    return this.#retryAfter;
  }

  /** Aborts the requests that are under way. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  stop(reason: Incomplete, retryAfter?: number): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#retryAfter = retryAfter;
    this.#abort.abort(new DOMException(`The pass stops: ${reason}.`, "AbortError"));
  }
}

interface Failure {
  readonly error: unknown;
  /** The platform answered, so the failure concerns this record alone. */
  readonly answered: boolean;
}

/** The result of a read; `undefined` if the pass stopped before there was an answer. */
export type Read<T> = { readonly value: T } | Failure | undefined;

/** Reads from the platform at the pace that it allows, and stops the pass in an outage. */
export class Reader {
  readonly #stop: StopReason;
  readonly #backoff: Backoff;
  readonly #hold: boolean;
  /** No request is sent before this time on the monotonic clock. */
  #quietUntil = 0;
  #rounds = 0;
  #answered = false;
  #lastRound = Number.NEGATIVE_INFINITY;

  /** @param hold - whether a wait keeps the process alive */
  constructor(options: { readonly stop: StopReason; readonly backoff: Backoff; readonly hold: boolean }) {
    this.#stop = options.stop;
    this.#backoff = options.backoff;
    this.#hold = options.hold;
  }

  /** Whether the platform has answered any request. */
  get answered(): boolean {
    return this.#answered;
  }

  async read<T>(ask: (options: RequestOptions) => PromiseLike<T>): Promise<Read<T>> {
    const { signal } = this.#stop;
    let failure: Failure | undefined;
    for (let tries = 1; ; tries += 1) {
      await this.#quiet();
      if (signal.aborted) return failure;
      const askedAt = performance.now();
      try {
        // No retries by the client: they would not wait for the pause that all reads of this pass keep.
        const value = await ask({ signal, maxRetries: 0 });
        this.#gotAnswer();
        return { value };
      } catch (error) {
        if (signal.aborted) return failure;
        const { outage } = fetchFailure(error);
        failure = { error, answered: !outage };
        if (!outage) {
          this.#gotAnswer();
          return failure;
        }
        const wait = this.#outOfReach(error, outage, askedAt);
        if (tries >= TRIES || this.#stop.reason !== undefined) return failure;
        await pause(wait, signal, this.#hold);
      }
    }
  }

  #gotAnswer(): void {
    this.#answered = true;
    this.#rounds = 0;
  }

  /** @returns ms before this record may be asked for again */
  #outOfReach(error: unknown, { everything, retryAfter }: Outage, askedAt: number): number {
    // Reads that were sent at the same time count as one round.
    if (askedAt >= this.#lastRound) {
      this.#rounds += 1;
      this.#lastRound = performance.now();
    }
    const limited = error instanceof APIError && error.status === 429;
    // Waiting does not help if the token is missing or refused.
    const hopeless = everything && !limited;
    const wait = retryAfter ?? this.#backoff(this.#rounds);
    if (hopeless || this.#rounds >= ROUNDS || wait > LONGEST_RETRY_AFTER)
      this.#stop.stop("unreachable", retryAfter);
    else if (everything || retryAfter !== undefined)
      this.#quietUntil = Math.max(this.#quietUntil, performance.now() + wait);
    return wait;
  }

  async #quiet(): Promise<void> {
    const { signal } = this.#stop;
    for (let left = 1; left > 0 && !signal.aborted; ) {
      left = this.#quietUntil - performance.now();
      if (left > 0) await pause(left, signal, this.#hold);
    }
  }
}
