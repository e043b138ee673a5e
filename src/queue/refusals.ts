import type { ClaimOptions } from "../stores/event-store.ts";
import type { QueueOptions } from "./policy.ts";

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
  readonly #log: QueueOptions<never>["logger"];
  readonly #onLift: () => void;
  /** The records that were refused since the last success. Holds at most {@link ENOUGH}. */
  readonly #records = new Set<string>();
  #inRow = 0;
  #since = 0;
  #tokens = 0;
  #refilledAt = 0;
  #claims = 0;

  constructor(log: QueueOptions<never>["logger"], onLift: () => void) {
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
