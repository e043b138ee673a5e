import type { Log } from "../logger.ts";
import type { ClaimedEvent } from "../stores/event-store.ts";

/** Reads are limited after this many refused records in a row. */
const ENOUGH = 10;
/** How many reads may begin at once while reads are limited. */
const BURST = 5;
/** How many reads may begin each second while reads are limited. With a burst, at most 50 reads begin in a second. */
const RATE = 45;
/** How many claims take only the oldest events after the newest events were retries. */
const ONLY_OLDEST = 10;

/**
 * Limits reads after many records in a row were refused or not found. The cause may be forged events, a firewall or a
 * wrong base URL. The queue does not pause, because forged events must not stop genuine events.
 */
export class RefusedReads {
  readonly #log: Log;
  readonly #onLift: () => void;
  /** The records that were refused since the last success. Holds at most {@link ENOUGH}. */
  readonly #records = new Set<string>();
  #inRow = 0;
  #since = 0;
  #tokens = 0;
  #refilledAt = 0;
  #claims = 0;
  #oldestUntil = 0;

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

  /** Whether the next claim takes the newest events: every second one, so that forged events do not block genuine ones. */
  takesNewest(): boolean {
    if (!this.limiting) return false;
    this.#claims += 1;
    return this.#claims > this.#oldestUntil && this.#claims % 2 === 0;
  }

  /** Notes the events of a claim that took the newest. If all of them are retries, no new event waits. */
  tookNewest(events: readonly ClaimedEvent[]): void {
    const isRetry = ({ attempts, outages }: ClaimedEvent) => attempts > 1 || outages > 0;
    if (events.length > 0 && events.every(isRetry)) this.#oldestUntil = this.#claims + ONLY_OLDEST;
  }

  #tokensAt(now: number): number {
    return Math.min(BURST, this.#tokens + ((now - this.#refilledAt) * RATE) / 1000);
  }
}
