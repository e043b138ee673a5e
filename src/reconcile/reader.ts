import { APIError } from "../client/errors.ts";
import type { RequestOptions } from "../client/options.ts";
import type { Backoff } from "../queue/backoff.ts";
import type { Outage } from "../queue/work.ts";
import { fetchFailure } from "../webhooks/processing/failures.ts";
import type { Ending } from "./ending.ts";
import { pause } from "./pause.ts";

/** How often one record is asked for that cannot be reached, while others may be. */
const TRIES = 3;
/** How often nobody is reached, with no answer in between, before the pass ends. */
const ROUNDS = 5;
/** A longer wait than this, ms, is not slept: the pass ends, to go on later where it stopped. */
const LONGEST_RETRY_AFTER = 60_000;

interface Failure {
  readonly error: unknown;
  /** There was an answer, and that is what it was; else it may only be that nobody was there. */
  readonly answered: boolean;
}

/** What came of reading: `undefined` where the pass has ended before there was an answer. */
export type Read<T> = { readonly value: T } | Failure | undefined;

/** Reads from the platform at the pace that it takes: waits when asked to, and gives up when nobody is there. */
export class Reader {
  readonly #ending: Ending;
  readonly #backoff: Backoff;
  readonly #hold: boolean;
  /** Nothing is asked before then, on the monotonic clock. */
  #quietUntil = 0;
  #rounds = 0;
  #answered = false;
  #lastRound = Number.NEGATIVE_INFINITY;

  /** @param hold - whether a wait keeps the process alive */
  constructor(options: { readonly ending: Ending; readonly backoff: Backoff; readonly hold: boolean }) {
    this.#ending = options.ending;
    this.#backoff = options.backoff;
    this.#hold = options.hold;
  }

  /** Whether anything was answered at all. */
  get answered(): boolean {
    return this.#answered;
  }

  async read<T>(ask: (options: RequestOptions) => PromiseLike<T>): Promise<Read<T>> {
    const { signal } = this.#ending;
    let failure: Failure | undefined;
    for (let tries = 1; ; tries += 1) {
      await this.#quiet();
      if (signal.aborted) return failure;
      const askedAt = performance.now();
      try {
        // The client's own retries would go on asking while the others here wait.
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
        if (tries >= TRIES || this.#ending.why !== undefined) return failure;
        await pause(wait, { signal, hold: this.#hold });
      }
    }
  }

  #gotAnswer(): void {
    this.#answered = true;
    this.#rounds = 0;
  }

  /** @returns ms before this record is to be asked for again */
  #outOfReach(error: unknown, { everything, retryAfter }: Outage, askedAt: number): number {
    // What was asked beside it says nothing new.
    if (askedAt >= this.#lastRound) {
      this.#rounds += 1;
      this.#lastRound = performance.now();
    }
    const limited = error instanceof APIError && error.status === 429;
    // Without a token, or with one that is refused, nothing can be read, however long it is waited.
    const hopeless = everything && !limited;
    const wait = retryAfter ?? this.#backoff(this.#rounds);
    if (hopeless || this.#rounds >= ROUNDS || wait > LONGEST_RETRY_AFTER)
      this.#ending.ask("unreachable", retryAfter);
    else if (everything || retryAfter !== undefined)
      this.#quietUntil = Math.max(this.#quietUntil, performance.now() + wait);
    return wait;
  }

  async #quiet(): Promise<void> {
    const { signal } = this.#ending;
    for (let left = 1; left > 0 && !signal.aborted; ) {
      left = this.#quietUntil - performance.now();
      if (left > 0) await pause(left, { signal, hold: this.#hold });
    }
  }
}
