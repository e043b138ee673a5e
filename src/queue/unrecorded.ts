// When this process must stop claiming: while results have failed since the store last recorded one, it claims one event
// at a time, after waits that double from 1 s to 30 s. Each claim would run a callback whose result may be lost.

/** The waits between tries to record a result, ms. Each later wait is as long as the last one. */
const WAITS = [50, 200, 1000, 2000, 4000, 8000, 16_000, 30_000] as const;
/** The first and the longest wait before an event is claimed as a trial, ms. */
const [FIRST_TRIAL, LAST_TRIAL] = [1000, 30_000];
/** A drain ends without a result that was not recorded for this long, ms. */
const PATIENCE = 60_000;

/** A result that this process keeps until the store has recorded it. */
export interface KeptResult {
  /** When the store did not record the result for the first time, on the monotonic clock. */
  readonly since: number;
  /** Why the store did not record the result the last time. */
  error: unknown;
}

/** The results that the store did not record. */
export class Unrecorded {
  readonly #onFailing: () => void;
  readonly #kept = new Set<KeptResult>();
  /** The results that have failed since the store last recorded one. The others are at fault themselves. */
  readonly #suspects = new Set<KeptResult>();
  /** When the last trial began or failed, on the monotonic clock. */
  #triedAt = 0;
  #works = Promise.withResolvers<void>();

  /** @param onFailing - called at each failure, because claims that wait for slots may have to be given back */
  constructor(onFailing: () => void) {
    this.#onFailing = onFailing;
  }

  /** How many results this process keeps. */
  get size(): number {
    return this.#kept.size;
  }

  /** The error that keeps this process from claiming more than one event at a time. */
  get failure(): unknown {
    const [first] = this.#suspects;
    return first?.error;
  }

  /** Resolves when the store seems to work again. */
  get works(): Promise<void> {
    return this.#works.promise;
  }

  /** Lets all results be tried at once. */
  tryNow(): void {
    this.#works.resolve();
    this.#works = Promise.withResolvers();
  }

  /** Returns the wait before the next try to record a result, ms. */
  static waitAfter(tries: number): number {
    return WAITS[Math.min(tries, WAITS.length - 1)]!;
  }

  /**
   * Keeps a result that the store did not record.
   *
   * @param kept - what this method returned for the result before
   */
  keep(error: unknown, kept?: KeptResult): KeptResult {
    const now = performance.now();
    const result = kept ?? { since: now, error };
    result.error = error;
    if (kept === undefined) {
      this.#kept.add(result);
      this.#suspects.add(result);
      this.#triedAt = now;
    }
    this.#onFailing();
    return result;
  }

  /** Whether the store has recorded another result since it did not record this one. */
  isAtFault(result: KeptResult | undefined): boolean {
    return result !== undefined && !this.#suspects.has(result);
  }

  /** Forgets a result that is recorded, or that another process replaces. */
  forget(result: KeptResult | undefined): void {
    if (result === undefined) return;
    this.#kept.delete(result);
    this.#suspects.delete(result);
  }

  /** Notes that the store has recorded a result. */
  recorded(): void {
    if (this.#suspects.size === 0) return;
    this.#suspects.clear();
    this.tryNow();
  }

  /** Notes that an attempt begins. */
  started(): void {
    if (this.#suspects.size > 0) this.#triedAt = performance.now();
  }

  /** Returns the ms until one event may be claimed as a trial; `undefined` if claims are not limited. */
  trialAt(now: number): number | undefined {
    // This runs before each claim.
    if (this.#suspects.size === 0) return undefined;
    const [first] = this.#suspects;
    const wait = Math.min(Math.max(this.#triedAt - first!.since, FIRST_TRIAL), LAST_TRIAL);
    return Math.max(0, this.#triedAt + wait - now);
  }

  /** Whether no attempt may begin now. */
  isBlockedAt(now: number): boolean {
    return (this.trialAt(now) ?? 0) > 0;
  }

  /** Whether a result was not recorded for so long that a drain must not wait for it any more. */
  isStuckAt(now: number): boolean {
    return [...this.#kept].some(({ since }) => now - since >= PATIENCE);
  }
}
