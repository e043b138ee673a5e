import { errorText } from "../errors.ts";
import { LONGEST_RETRY_AFTER } from "./retries.ts";
import type { Backoff, Outage, Pause } from "./work.ts";

/** The longest wait between two half-open tries, ms. The breaker shortens this limit by up to a quarter, at random. */
const LONGEST_PAUSE = 60_000;

interface CircuitBreakerOptions {
  readonly concurrency: number;
  readonly backoff: Backoff;
  readonly onPause: (pause: Pause & { readonly wait: number; readonly error: unknown }) => void;
  readonly onResume: () => void;
}

interface OpenState extends Pause {
  /** When half-open attempts may begin, on the monotonic clock. */
  readonly until: number;
  /** Whether `until` comes from `Retry-After`. */
  readonly asked: boolean;
}

/** The circuit breaker's data about one attempt. The breaker ignores all but the first result of the attempt. */
export interface Reading {
  readonly record: string;
  readonly epoch: number;
  reported: boolean;
}

/**
 * Distinguishes an outage of the platform from a single record that cannot be read. An outage opens the breaker, and
 * the queue pauses. A single bad record must not stop the other records.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  /** This many unreachable records are an outage. Two records are enough if their events had no earlier outage. */
  readonly #enough: number;
  /** The records that were unreachable since the platform's last answer. */
  readonly #unreached = new Set<string>();
  /** The records in `#unreached` whose event had no earlier outage. */
  readonly #newlyUnreached = new Set<string>();
  #open: OpenState | undefined;
  /** The attempt that a half-open breaker has let through. */
  #trying: Reading | undefined;
  /** The number of pauses since the platform's last answer. */
  #pauses = 0;
  /** Counts all pauses. An attempt with a lower `epoch` began before the last pause. */
  #epoch = 0;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
    this.#enough = Math.max(2, options.concurrency);
  }

  /** The pause, while the breaker is open or half-open. It is `undefined` while the breaker is closed. */
  get pause(): Pause | undefined {
    return this.#open && { since: this.#open.since, reason: this.#open.reason };
  }

  /** Returns ms until attempts may begin. `now` is a time on the monotonic clock. */
  waitAt(now: number): number {
    return this.#open ? Math.max(0, this.#open.until - now) : 0;
  }

  /** How many attempts may begin after the wait. A half-open breaker lets one attempt through at a time. */
  get room(): number {
    if (!this.#open) return Number.POSITIVE_INFINITY;
    return this.#trying === undefined ? 1 : 0;
  }

  /** Lets half-open attempts begin at once, unless `Retry-After` set the length of the pause. */
  tryNow(): void {
    if (this.#open && !this.#open.asked) this.#open = { ...this.#open, until: Number.NEGATIVE_INFINITY };
  }

  begin(record: string): Reading {
    const reading = { record, epoch: this.#epoch, reported: false };
    if (this.#open) this.#trying ??= reading;
    return reading;
  }

  /** Notes that an attempt has ended. A half-open breaker then lets the next attempt through. */
  end(reading: Reading): void {
    if (this.#trying === reading) this.#trying = undefined;
  }

  /** Notes that the platform answered. The answer ends the pause, unless its attempt began before the pause. */
  recordAnswer(reading: Reading): void {
    if (!isFirst(reading)) return;
    if (this.#open && reading.epoch < this.#epoch) return;
    this.#unreached.clear();
    this.#newlyUnreached.clear();
    if (!this.#open) return;
    this.#open = undefined;
    this.#pauses = 0;
    this.#options.onResume();
  }

  /** Notes that the platform was out of reach. `first` is `true` if this event had no outage before. */
  recordOutage(reading: Reading, first: boolean, outage: Outage, error: unknown): void {
    if (!isFirst(reading)) return;
    // An attempt that began before the pause matters only if it brings a longer `Retry-After`.
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

  /** Adds to a set of limited size, because a long outage must not fill the memory. */
  #note(set: Set<string>, record: string): void {
    if (set.size < this.#enough) set.add(record);
  }

  #pauseFor(outage: Outage, error: unknown): void {
    this.#pauses += 1;
    this.#epoch += 1;
    // The callback of an attempt that ended an earlier pause may still run. It must not block the tries in this pause.
    this.#trying = undefined;
    const asked = outage.retryAfter !== undefined;
    const wait = asked
      ? Math.min(outage.retryAfter ?? 0, LONGEST_RETRY_AFTER)
      : Math.round(Math.min(this.#options.backoff(this.#pauses), LONGEST_PAUSE * (1 - Math.random() / 4)));
    const since = this.#open?.since ?? new Date();
    const reason = errorText(error);
    this.#open = { since, reason, asked, until: performance.now() + wait };
    this.#options.onPause({ since, reason, wait, error });
  }

  #extend(retryAfter: number): void {
    const until = performance.now() + Math.min(retryAfter, LONGEST_RETRY_AFTER);
    if (this.#open && until > this.#open.until) this.#open = { ...this.#open, until, asked: true };
  }
}

function isFirst(reading: Reading): boolean {
  if (reading.reported) return false;
  reading.reported = true;
  return true;
}
