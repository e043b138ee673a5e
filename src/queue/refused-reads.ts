// Limits the reads in a flood of notifications for records that do not exist.

import type { Log } from "../logger.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";

/** Reads are limited while at least this many refusals are remembered. */
const ENOUGH = 10;
/** How many refusals are remembered. Each success forgets one, so that a stranger's one known code does not lift the limit. */
const MOST = 20;
/** How many reads may begin at once while reads are limited. */
const BURST = 3;
/**
 * How many reads may begin each second while reads are limited. The docs promise at most 50 in any second. This rate is
 * lower, because a burst, or the reads that began just before the limit, may fall into the same second.
 */
const RATE = 40;
/** The lowest rate after answers with 429. */
const LEAST_RATE = 1;
/** The part of the reads that a line of unknown records gets. The rest is for events that have just arrived. */
const LINE = 0.75;
/** How much a rate that was halved rises each second, reads a second. */
const RISE = 0.25;

/**
 * Limits reads after many records were refused, not found, or failed while others got an answer. The cause may be forged
 * events, a firewall or a wrong base URL. The queue does not pause, because forged events must not stop genuine events.
 */
export class RefusedReads {
  readonly #log: Log;
  readonly #account: string | undefined;
  readonly #onLift: () => void;
  /** The refused records that are remembered. Holds at most {@link MOST}. */
  readonly #records = new Set<string>();
  #inRow = 0;
  #since = 0;
  #tokens = 0;
  #refilledAt = 0;
  /** Reads a second at `#refilledAt`. */
  #rate = RATE;
  #claims = 0;
  /** When the last event of each line has its turn, on the monotonic clock. */
  readonly #lines: [known: number, new: number, tried: number] = [0, 0, 0];

  constructor(log: Log, account: string | undefined, onLift: () => void) {
    this.#log = log;
    this.#account = account;
    this.#onLift = onLift;
  }

  get limiting(): boolean {
    return this.#records.size >= ENOUGH;
  }

  /** Whether there is nothing to remember. */
  get isIdle(): boolean {
    return this.#records.size === 0;
  }

  /** When the first refusal since the last success happened, on the monotonic clock. */
  get since(): number {
    return this.#since;
  }

  /** Forgets one refusal, because a read has succeeded. */
  recordSuccess(): void {
    const { limiting } = this;
    for (const record of this.#records) {
      this.#records.delete(record);
      break;
    }
    this.#inRow = 0;
    if (limiting && !this.limiting) this.#onLift();
  }

  recordRefusal(record: string, error: unknown): void {
    const now = performance.now();
    const { limiting } = this;
    if (this.#inRow === 0) this.#since = now;
    this.#inRow += 1;
    if (this.#records.size < MOST) this.#records.add(record);
    if (!this.limiting) return;
    if (!limiting) [this.#tokens, this.#refilledAt, this.#rate] = [-ENOUGH, now, RATE];
    const whose = this.#account === undefined ? "" : ` of account ${this.#account}`;
    this.#log.limited(
      "refused",
      "warn",
      `the platform refused, did not find or failed to answer for ${this.#inRow} records${whose} in a row. Until enough reads succeed, the handler reads at most 50 records a second. Check the base URL and the token. If strangers send notifications, set the option \`verify\``,
      { error, ...(this.#account !== undefined && { account: this.#account }) },
    );
  }

  /** Halves the rate, because the platform answered 429 although reads are limited. */
  recordLimit(): void {
    if (!this.limiting) return;
    this.take(0);
    this.#rate = Math.max(LEAST_RATE, this.#rate / 2);
    this.#tokens = Math.min(0, this.#tokens);
  }

  /** Returns how many reads may begin at `now`, and ms until the next read may begin. */
  roomAt(now: number): { readonly reads: number; readonly nextRead: number } {
    if (!this.limiting) return { reads: Number.POSITIVE_INFINITY, nextRead: 0 };
    const tokens = this.#tokensAt(now);
    return {
      reads: Math.max(0, Math.floor(tokens)),
      nextRead: Math.ceil(((1 - tokens) * 1000) / this.#rateAt(now)),
    };
  }

  /** Counts reads that begin. A negative number takes back reads that did not begin. */
  take(reads: number): void {
    const now = performance.now();
    this.#tokens = Math.min(BURST, this.#tokensAt(now) - reads);
    this.#rate = this.#rateAt(now);
    this.#refilledAt = now;
  }

  /** Takes back a read, because its attempt needed none. */
  giveBack(): void {
    if (this.limiting) this.take(-1);
  }

  /** Whether the next claim prefers genuine events: every second one, so that each event gets its turn. */
  prefersGenuine(): boolean {
    if (!this.limiting) return false;
    this.#claims += 1;
    return this.#claims % 2 === 0;
  }

  /**
   * Takes a read for an event of an account among others, or returns for how long the event is put back, ms. Events of known
   * records come first, then events that were never tried. Each of these has a line of its own, as have the others.
   */
  turnOf({ previous, attempts, outages }: ClaimedEvent, now: number): number {
    if (!this.limiting) return 0;
    const rank = previous !== undefined ? 0 : attempts === 1 && outages === 0 ? 1 : 2;
    const before = this.#lines.slice(0, rank).filter((until) => until > now).length;
    if (this.#tokensAt(now) >= 1 + before) {
      this.take(1);
      return 0;
    }
    const apart = 1000 / this.#rateAt(now) / (rank === 0 ? 1 : LINE);
    const until = Math.max(this.#lines[rank]!, now) + apart;
    this.#lines[rank] = until;
    return until - now;
  }

  #rateAt(now: number): number {
    return Math.min(RATE, this.#rate + ((now - this.#refilledAt) * RISE) / 1000);
  }

  #tokensAt(now: number): number {
    return Math.min(BURST, this.#tokens + ((now - this.#refilledAt) * this.#rate) / 1000);
  }
}

/** The limits of all accounts. Only accounts with refused reads take memory. */
export class ReadLimits {
  readonly #log: Log;
  readonly #onLift: () => void;
  readonly #accounts = new Map<string | undefined, RefusedReads>();

  constructor(log: Log, onLift: () => void) {
    this.#log = log;
    this.#onLift = onLift;
  }

  /** Returns the limit of an account, or of an app that has one account. */
  of(account: string | undefined): RefusedReads {
    return this.#accounts.get(account) ?? new RefusedReads(this.#log, account, this.#onLift);
  }

  recordSuccess(account: string | undefined): void {
    const limit = this.#accounts.get(account);
    limit?.recordSuccess();
    if (limit?.isIdle) this.#accounts.delete(account);
  }

  recordRefusal(account: string | undefined, record: string, error: unknown): void {
    const limit = this.of(account);
    this.#accounts.set(account, limit);
    limit.recordRefusal(record, error);
  }
}
