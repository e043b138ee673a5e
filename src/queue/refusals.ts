import type { ClaimOptions } from "../stores/event-store.ts";
import type { QueueOptions } from "./policy.ts";

/** So many records refused in a row, with no success in between, limit the reads. */
const ENOUGH = 10;
/** The most reads at once while they are limited. */
const BURST = 5;
/** Reads a second while they are limited. With a burst, there are at most 50 in any second. */
const RATE = 45;

/**
 * Limits the reads while record after record is refused or not found. That is a flood of forged notifications, a
 * firewall, or a wrong base URL. A pause would let a stranger hold up genuine events, so reads go on at a bounded pace.
 */
export class Refusals {
  readonly #log: QueueOptions<never>["logger"];
  readonly #onLift: () => void;
  /** Records refused since the last success, {@link ENOUGH} at most. */
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

  /** When the first record of the row was refused, on the monotonic clock. */
  get since(): number {
    return this.#since;
  }

  /** A record was read. */
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

  /** `reads` begin; a negative number of them did not begin after all. */
  take(reads: number): void {
    const now = performance.now();
    this.#tokens = Math.min(BURST, this.#tokensAt(now) - reads);
    this.#refilledAt = now;
  }

  /** Both ends of the queue in turn: a genuine event is near one of them. First attempts go before retries. */
  nextOrder(): ClaimOptions["order"] {
    this.#claims += 1;
    return this.#claims % 2 === 0 ? "newest" : "oldest";
  }

  #tokensAt(now: number): number {
    return Math.min(BURST, this.#tokens + ((now - this.#refilledAt) * RATE) / 1000);
  }
}
