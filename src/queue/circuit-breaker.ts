import { errorText } from "../errors.ts";
import type { Backoff } from "./backoff.ts";
import type { Outage } from "./work.ts";

/** The longest wait between two half-open tries, ms. The breaker cuts up to a quarter of it at random. */
const LONGEST_WAIT = 60_000;
/** The longest `Retry-After` that the queue obeys, ms. */
export const LONGEST_RETRY_AFTER = 15 * 60_000;

export interface CircuitBreakerOptions {
  readonly concurrency: number;
  readonly backoff: Backoff;
  readonly onPause: (pause: Pause & { readonly wait: number; readonly error: unknown }) => void;
  readonly onResume: () => void;
}

/** A pause of the queue. */
export interface Pause {
  /** When the pause began. */
  readonly since: Date;
  /** The text of the last error. */
  readonly reason: string;
}

interface OpenState extends Pause {
  /** When half-open attempts may begin, on the monotonic clock. */
  readonly until: number;
  /** The outage concerns every record, so an answer to an older request does not end it. */
  readonly firm: boolean;
  /** The platform asked for the wait, by `Retry-After`. */
  readonly asked: boolean;
}

/** An attempt, as the breaker knows it. The breaker counts the first report about it only. */
export interface Reading {
  readonly record: string;
  readonly epoch: number;
  reported: boolean;
}

/**
 * Tells an outage of the platform from a record that cannot be read. An outage opens the breaker, and the queue pauses.
 * A single bad record must not stop the other records.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  /** How many unreachable records make an outage. At least 2: one record says nothing about the others. */
  readonly #enough: number;
  /** Records that were out of reach since the last answer. */
  readonly #unreached = new Set<string>();
  /** The records of `#unreached` whose event found the platform out of reach for the first time. */
  readonly #newlyUnreached = new Set<string>();
  #open: OpenState | undefined;
  /** Pauses in a row. */
  #pauses = 0;
  /** Rises with each pause. Tells attempts from before a pause from later ones. */
  #epoch = 0;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
    this.#enough = Math.max(2, options.concurrency);
  }

  /** The pause, open or half-open; `undefined` while the breaker is closed. */
  get pause(): Pause | undefined {
    return this.#open && { since: this.#open.since, reason: this.#open.reason };
  }

  /** ms from `now`, on the monotonic clock, until attempts may begin. */
  waitAt(now: number): number {
    return this.#open ? Math.max(0, this.#open.until - now) : 0;
  }

  /** Lets half-open attempts begin at once, unless the platform asked for the wait. */
  tryNow(): void {
    if (this.#open && !this.#open.asked) this.#open = { ...this.#open, until: Number.NEGATIVE_INFINITY };
  }

  /** Registers an attempt that begins. */
  begin(record: string): Reading {
    return { record, epoch: this.#epoch, reported: false };
  }

  /** Records that the platform answered, which ends a pause. */
  recordAnswer(reading: Reading): void {
    if (!isFirst(reading)) return;
    if (this.#open?.firm && reading.epoch < this.#epoch) return;
    this.#unreached.clear();
    this.#newlyUnreached.clear();
    if (!this.#open) return;
    this.#open = undefined;
    this.#pauses = 0;
    this.#options.onResume();
  }

  /** Records that the platform was out of reach. `first`: it is the first time for this event. */
  recordOutage(reading: Reading, first: boolean, outage: Outage, error: unknown): void {
    if (!isFirst(reading)) return;
    // An attempt from before the pause tells nothing new, except a longer `Retry-After`.
    if (this.#open && reading.epoch < this.#epoch) {
      if (outage.retryAfter !== undefined) this.#extend(outage.retryAfter);
      return;
    }
    this.#note(this.#unreached, reading.record);
    if (first) this.#note(this.#newlyUnreached, reading.record);
    const everything = outage.everything || outage.retryAfter !== undefined;
    const enough = this.#newlyUnreached.size >= 2 || this.#unreached.size >= this.#enough;
    // One failed half-open attempt is enough to prolong the pause.
    if (this.#open || everything || enough) this.#pauseFor(outage, error);
  }

  /** Adds to a set of bounded size: a long outage must not fill the memory. */
  #note(set: Set<string>, record: string): void {
    if (set.size < this.#enough) set.add(record);
  }

  #pauseFor(outage: Outage, error: unknown): void {
    this.#pauses += 1;
    this.#epoch += 1;
    const asked = outage.retryAfter !== undefined;
    const wait = asked
      ? Math.min(outage.retryAfter ?? 0, LONGEST_RETRY_AFTER)
      : Math.round(Math.min(this.#options.backoff(this.#pauses), LONGEST_WAIT * (1 - Math.random() / 4)));
    const since = this.#open?.since ?? new Date();
    const reason = errorText(error);
    this.#open = { since, reason, firm: asked || outage.everything, asked, until: performance.now() + wait };
    this.#options.onPause({ since, reason, wait, error });
  }

  #extend(retryAfter: number): void {
    const until = performance.now() + Math.min(retryAfter, LONGEST_RETRY_AFTER);
    if (this.#open && until > this.#open.until)
      this.#open = { ...this.#open, until, firm: true, asked: true };
  }
}

function isFirst(reading: Reading): boolean {
  if (reading.reported) return false;
  reading.reported = true;
  return true;
}
