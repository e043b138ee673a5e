// The rule for a clock that is set back: due times repair themselves, instead of lying in the future.

/** A result with the store's clock, epoch ms, read while the call ran. */
export interface Timed<T> {
  readonly now: number;
  readonly result: T;
}

/** How far the store's clock may be behind before it counts as set back, ms. */
const SET_BACK = 1000;

interface Repair {
  /** Returns when the newest event was recorded, as far as the store knows it, epoch ms. */
  newestReceivedAt(): Promise<number>;
  /** Repairs the times in the store. */
  setBack(): Promise<void>;
}

/** Compares the store's clock with the monotonic clock of this process. */
export class StoreClock {
  readonly #repair: Repair;
  /** The store's time at the last reading. `undefined` before the first one. */
  #now: number | undefined;
  #readAt = 0;

  constructor(repair: Repair) {
    this.#repair = repair;
  }

  /**
   * Runs a call whose result depends on the store's clock. If the clock was set back, repairs the times, and runs the call
   * again unless its result already `found` work.
   */
  async follow<T>(run: () => Promise<Timed<T>>, found: (result: T) => boolean): Promise<T> {
    // Read before the call: another process may add an event while the call waits for its answer.
    const newest = this.#now === undefined ? await this.#repair.newestReceivedAt() : undefined;
    const sentAt = performance.now();
    const { now, result } = await run();
    let isBehind: boolean;
    try {
      isBehind = await this.#read(now, sentAt, newest);
    } catch (error) {
      // Nobody else can handle claimed events before their leases end. The next call looks at the clock again.
      if (found(result)) return result;
      throw error;
    }
    return isBehind && !found(result) ? (await run()).result : result;
  }

  /** @returns whether the clock was set back, so that times were repaired */
  async #read(now: number, sentAt: number, newest: number | undefined): Promise<boolean> {
    // Another call may have read the clock meanwhile. A reading may be behind even the moment at which its call was sent.
    const expected = this.#now === undefined ? newest! : this.#now + (sentAt - this.#readAt);
    const isBehind = now < expected - SET_BACK;
    if (isBehind) await this.#repair.setBack();
    this.#now = now;
    this.#readAt = performance.now();
    return isBehind;
  }
}
