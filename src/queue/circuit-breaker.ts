import { errorText } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { ClaimOptions } from "../stores/event-store.ts";
import { LONGEST_RETRY_AFTER } from "./retries.ts";
import type { Backoff, Outage, Pause } from "./work.ts";

/** The longest wait between two half-open tries, ms. The breaker cuts up to a quarter of it at random. */
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
  /** Counts all pauses. Each attempt keeps the count, so that the result of an attempt from before a pause is known. */
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

/** How many refused records in a row limit the reads. */
const ENOUGH = 10;
/** How many reads may begin at once while they are limited. */
const BURST = 5;
/** How many reads may begin each second while they are limited. Together with a burst, they are 50 at most. */
const RATE = 45;

/**
 * Limits the pace of reads while the platform refuses many records in a row, or finds none of them. The cause is a flood
 * of forged notifications, a firewall or a wrong base URL. The queue must not pause: strangers could delay genuine events.
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

  /** When the first of these records was refused, on the monotonic clock. */
  get since(): number {
    return this.#since;
  }

  /** Records that the platform gave a record, which lifts the limit. */
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
      `${this.#inRow} reads in a row were refused or not found, so reads are limited to 50 a second until one succeeds. Check the base URL and the token. If strangers send notifications, the option \`verify\` keeps them out`,
      { error },
    );
  }

  /** How many reads may begin at `now`, and in how many ms the next may. */
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

  /** Takes from both ends of the queue in turn, because a genuine event is near one of them. First attempts go before retries. */
  nextOrder(): ClaimOptions["order"] {
    this.#claims += 1;
    return this.#claims % 2 === 0 ? "newest" : "oldest";
  }

  #tokensAt(now: number): number {
    return Math.min(BURST, this.#tokens + ((now - this.#refilledAt) * RATE) / 1000);
  }
}
