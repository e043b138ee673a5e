// The results that the store did not record. A process that cannot record results must not claim, because each claim
// would run a callback whose result is lost, and the next process would run the callback again.

/** The waits between tries to record a result, ms. Each later wait is as long as the last one. */
const WAITS = [50, 200, 1000, 2000, 4000, 8000, 16_000, 30_000] as const;
/** The waits before an event is claimed as a trial, ms. */
const TRIALS = [1000, 2000, 4000, 8000, 16_000, 30_000] as const;
/** After this time, one event is claimed as a trial although a result is still kept: its own data may be at fault, ms. */
const STUCK = 10 * 60_000;
/** A result that this process keeps until the store has recorded it. */
export interface KeptResult {
  readonly since: number;
  error: unknown;
  /** Whether the result itself is at fault: it failed after the store had recorded another one. */
  ownFault: boolean;
  /** How many results the store had recorded when this one last failed. */
  recorded: number;
}

/** Keeps the claims away from a store that does not record results. */
export class Unrecorded {
  readonly #onFailing: () => void;
  readonly #kept = new Set<KeptResult>();
  /** When the store last failed, on the monotonic clock. It is `undefined` if the store has recorded a result since. */
  #failedAt: number | undefined;
  /** How many trials or first results have failed in a row. */
  #trials = 0;
  #recorded = 0;
  #works = Promise.withResolvers<void>();

  /** @param onFailing - called when the store begins to fail, because claims that wait for slots must be given back */
  constructor(onFailing: () => void) {
    this.#onFailing = onFailing;
  }

  /** The error that keeps this process from recording the results that it has. */
  get failure(): unknown {
    return this.#blocking[0]?.error;
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
   * Notes that the store did not record the end of an attempt.
   *
   * @param kept - what this method returned for the result before
   */
  failed(error: unknown, kept?: KeptResult): KeptResult {
    const now = performance.now();
    const result = kept ?? { since: now, error, ownFault: false, recorded: this.#recorded };
    result.error = error;
    if (result.recorded < this.#recorded) result.ownFault = true;
    if (result.ownFault) return result;
    const began = this.#failedAt === undefined;
    this.#failedAt = now;
    if (kept === undefined) this.#trials += 1;
    if (began) this.#onFailing();
    return result;
  }

  /**
   * Returns a result that may be at fault itself, so that it keeps no other event from being claimed: its own writes fail,
   * or somebody has locked a row of its event.
   *
   * @param kept - what a method of this class returned for the result before
   */
  failedAlone(error: unknown, kept?: KeptResult): KeptResult {
    const result = kept ?? { since: performance.now(), error, ownFault: true, recorded: this.#recorded };
    result.error = error;
    result.ownFault = true;
    return result;
  }

  /** Keeps a result, so that nothing is claimed until it is recorded. */
  keep(result: KeptResult): void {
    this.#kept.add(result);
  }

  /** Forgets a result that is recorded, or that another process replaces. */
  forget(result: KeptResult | undefined): void {
    if (result !== undefined) this.#kept.delete(result);
  }

  /** Notes that the store has recorded the end of an attempt. */
  recorded(): void {
    this.#recorded += 1;
    if (this.#failedAt === undefined) return;
    this.#failedAt = undefined;
    this.#trials = 0;
    this.tryNow();
  }

  /**
   * Whether nothing may be claimed, because this process keeps a result. Ends after {@link STUCK} ms, so that a result
   * that no store takes does not stop the process for ever.
   */
  isBlockedAt(now: number): boolean {
    return this.#blocking.some(({ since }) => now < since + STUCK);
  }

  /** Returns the error if results have been kept for so long that a drain must not wait for them any more. */
  stuckAt(now: number): { readonly error: unknown } | undefined {
    return this.isBlockedAt(now) ? undefined : this.#blocking[0];
  }

  /**
   * Returns `undefined` if claims are not limited. Otherwise the ms until one event may be claimed as a trial; `Infinity`
   * while a trial runs.
   *
   * @param busy - how many attempts run or are being claimed
   */
  trialAt(now: number, busy: number): number | undefined {
    // This runs before each claim.
    if (this.#failedAt === undefined && this.#kept.size === 0) return undefined;
    const blocking = this.#blocking;
    if (this.#failedAt === undefined && blocking.length === 0) return undefined;
    const stuckAt = Math.max(...blocking.map(({ since }) => since + STUCK));
    if (now < stuckAt) return stuckAt - now;
    if (busy > this.#kept.size) return Number.POSITIVE_INFINITY;
    const wait = TRIALS[Math.min(this.#trials, TRIALS.length) - 1] ?? 0;
    return Math.max(0, (this.#failedAt ?? now) + wait - now);
  }

  /** The results that are not at fault themselves. */
  get #blocking(): readonly KeptResult[] {
    return [...this.#kept].filter(({ ownFault }) => !ownFault);
  }
}
