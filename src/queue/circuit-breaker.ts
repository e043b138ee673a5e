import { errorText } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { ClaimOptions } from "../stores/event-store.ts";
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
  /** Whether the outage affects every record. If `true`, an answer to an older request does not end the pause. */
  readonly firm: boolean;
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

  /** Lets half-open attempts begin at once, unless `Retry-After` set the length of the pause. */
  tryNow(): void {
    if (this.#open && !this.#open.asked) this.#open = { ...this.#open, until: Number.NEGATIVE_INFINITY };
  }

  begin(record: string): Reading {
    return { record, epoch: this.#epoch, reported: false };
  }

  /** Notes that the platform answered. The answer ends the pause, unless the attempt began before a `firm` pause. */
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
    const asked = outage.retryAfter !== undefined;
    const wait = asked
      ? Math.min(outage.retryAfter ?? 0, LONGEST_RETRY_AFTER)
      : Math.round(Math.min(this.#options.backoff(this.#pauses), LONGEST_PAUSE * (1 - Math.random() / 4)));
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

/** Reads are limited after this many refused records in a row. */
const ENOUGH = 10;
/** How many reads may begin at once while reads are limited. */
const BURST = 5;
/** How many reads may begin each second while reads are limited. With a burst, at most 50 reads begin in a second. */
const RATE = 45;

/**
 * Limits reads after many records in a row were refused or not found. The cause may be forged events, a firewall or a
 * wrong base URL. The queue does not pause, because forged events must not stop genuine events.
 */
export class Refusals {
  readonly #log: Log;
  readonly #onLift: () => void;
  /** The records that were refused since the last success. Holds at most {@link ENOUGH}. */
  readonly #records = new Set<string>();
  #inRow = 0;
  #since = 0;
  #tokens = 0;
  #refilledAt = 0;
  #claims = 0;

  constructor(log: Log, onLift: () => void) {
    this.#log = log;
    this.#onLift = onLift;
  }

  get limiting(): boolean {
    return this.#records.size >= ENOUGH;
  }

  /** When the first refusal since the last success happened, on the monotonic clock. */
  get since(): number {
    return this.#since;
  }

  /** Ends the limit, because a read has succeeded. */
  recordSuccess(): void {
    const { limiting } = this;
    this.#records.clear();
    this.#inRow = 0;
    if (limiting) this.#onLift();
  }

  recordRefusal(record: string, error: unknown): void {
    const now = performance.now();
    const { limiting } = this;
    if (this.#inRow === 0) this.#since = now;
    this.#inRow += 1;
    if (!limiting) this.#records.add(record);
    if (!this.limiting) return;
    if (!limiting) [this.#tokens, this.#refilledAt] = [0, now];
    this.#log.limited(
      "refused",
      "warn",
      `the platform refused or did not find ${this.#inRow} records in a row. Until a read succeeds, the handler reads at most 50 records a second. Check the base URL and the token. If strangers send notifications, set the option \`verify\``,
      { error },
    );
  }

  /** Returns how many reads may begin at `now`, and ms until the next read may begin. */
  roomAt(now: number): { readonly reads: number; readonly nextRead: number } {
    if (!this.limiting) return { reads: Number.POSITIVE_INFINITY, nextRead: 0 };
    const tokens = this.#tokensAt(now);
    return { reads: Math.max(0, Math.floor(tokens)), nextRead: Math.ceil(((1 - tokens) * 1000) / RATE) };
  }

  /** Counts reads that begin. A negative number takes back reads that did not begin. */
  take(reads: number): void {
    const now = performance.now();
    this.#tokens = Math.min(BURST, this.#tokensAt(now) - reads);
    this.#refilledAt = now;
  }

  /** Returns oldest and newest first in turn, so that a flood of forged events does not block genuine events. */
  nextOrder(): ClaimOptions["order"] {
    this.#claims += 1;
    return this.#claims % 2 === 0 ? "newest" : "oldest";
  }

  #tokensAt(now: number): number {
    return Math.min(BURST, this.#tokens + ((now - this.#refilledAt) * RATE) / 1000);
  }
}
