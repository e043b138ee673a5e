import { pause } from "../async.ts";
import { APIError } from "../client/client-errors.ts";
import type { RequestOptions } from "../client/client-options.ts";
import type { Backoff, Outage } from "../queue/work.ts";
import { fetchFailure } from "../webhooks/processing/record.ts";
import type { Incomplete } from "./options.ts";

/** How many times a pass tries to read one record while the platform is out of reach. */
const TRIES = 3;
/** The pass stops after this many rounds in a row without an answer. Concurrent reads are one round. */
const ROUNDS = 5;
/** The longest wait within a pass, ms. If a longer wait is needed, the pass stops and the next pass continues. */
const LONGEST_RETRY_AFTER = 60_000;

/** Why a pass stops before its end. The first reason counts. */
export class StopReason {
  /** Why the pass stops. It is `undefined` while the pass continues. */
  reason: Incomplete | undefined;
  /** The wait from the `Retry-After` header, ms. */
  retryAfter: number | undefined;
  readonly #abort = new AbortController();

  /** Aborts the requests in flight when the pass stops. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  stop(reason: Incomplete, retryAfter?: number): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.retryAfter = retryAfter;
    this.#abort.abort(new DOMException(`The pass stops: ${reason}.`, "AbortError"));
  }
}

interface Failure {
  readonly error: unknown;
  /** Whether the platform answered. If `true`, the failure affects only this record. */
  readonly answered: boolean;
}

/** The result of a read. It is `undefined` if the pass stopped before an answer. */
export type Read<T> = { readonly value: T } | Failure | undefined;

interface ReaderOptions {
  readonly stop: StopReason;
  readonly backoff: Backoff;
  /** Whether a wait keeps the process alive. */
  readonly hold: boolean;
}

/** Reads from the platform. Waits when the platform asks for a wait, and stops the pass in an outage. */
export class Reader {
  readonly #options: ReaderOptions;
  /** No request is sent before this time on the monotonic clock. */
  #quietUntil = 0;
  #rounds = 0;
  #lastRound = Number.NEGATIVE_INFINITY;

  /** Whether the platform has answered any request. */
  answered = false;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  async read<T>(ask: (options: RequestOptions) => PromiseLike<T>): Promise<Read<T>> {
    const { stop, hold } = this.#options;
    const { signal } = stop;
    let failure: Failure | undefined;
    for (let tries = 1; ; tries += 1) {
      await this.#quiet();
      if (signal.aborted) return failure;
      const askedAt = performance.now();
      try {
        // Do not let the client retry: the client's retries would ignore `#quietUntil`.
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
        if (tries >= TRIES || stop.reason !== undefined) return failure;
        await pause(wait, signal, hold);
      }
    }
  }

  #gotAnswer(): void {
    this.answered = true;
    this.#rounds = 0;
  }

  /** @returns ms until this record may be read again */
  #outOfReach(error: unknown, { everything, retryAfter }: Outage, askedAt: number): number {
    // Reads that run at the same time count as one round.
    if (askedAt >= this.#lastRound) {
      this.#rounds += 1;
      this.#lastRound = performance.now();
    }
    const limited = error instanceof APIError && error.status === 429;
    // Waiting does not help if the token is missing or refused.
    const hopeless = everything && !limited;
    const { stop, backoff } = this.#options;
    const wait = retryAfter ?? backoff(this.#rounds);
    if (hopeless || this.#rounds >= ROUNDS || wait > LONGEST_RETRY_AFTER)
      stop.stop("unreachable", retryAfter);
    else if (everything || retryAfter !== undefined)
      this.#quietUntil = Math.max(this.#quietUntil, performance.now() + wait);
    return wait;
  }

  async #quiet(): Promise<void> {
    const { stop, hold } = this.#options;
    for (let left = 1; left > 0 && !stop.signal.aborted; ) {
      left = this.#quietUntil - performance.now();
      if (left > 0) await pause(left, stop.signal, hold);
    }
  }
}
