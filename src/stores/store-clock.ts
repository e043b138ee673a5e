// The rule for a clock that is set back: due times repair themselves, instead of lying in the future.

/** A result with the store's clock, epoch ms, read while the call ran. */
export interface Timed<T> {
  readonly now: number;
  readonly result: T;
}

/** How far the store's clock may be behind before it counts as set back, ms. */
const SET_BACK = 1000;
/** How long a comparison of the clocks counts if no later one is closer, ms. */
const COMPARED = 60_000;
/** How far the wall clock of this process may move against the monotonic one, ms. More is a jump. */
const JUMP = 100;

/** Between which times the difference of two clocks lies, ms. */
interface Comparison {
  readonly least: number;
  readonly most: number;
  /** On the monotonic clock. */
  readonly at: number;
}

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
  #compared: Comparison | undefined;
  /** How far the wall clock of this process was ahead of the monotonic one at the last comparison, ms. */
  #ahead = 0;

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
    const [sentAt, sent] = [performance.now(), Date.now()];
    const { now, result } = await run();
    this.#compare(now - Date.now(), now - sent);
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

  /** Whether a call has read the store's clock since the wall clock of this process last jumped. */
  get isKnown(): boolean {
    return this.#compared !== undefined && Math.abs(wallAhead() - this.#ahead) < JUMP;
  }

  /**
   * How far the store's clock is ahead of the clock of this process, ms. It is 0 unless the clocks surely differ, because a
   * timer should be due exactly at its time. If they differ, it is rather too large: a timer must not be early.
   */
  get difference(): number {
    const { least, most } = this.#compared ?? { least: 0, most: 0 };
    return least <= 0 && most >= 0 ? 0 : most;
  }

  /** The store has read its clock between the start of a call and its answer. The fastest call shows the most. */
  #compare(least: number, most: number): void {
    const [at, known] = [performance.now(), this.#compared];
    const isBetter =
      known === undefined ||
      most - least <= known.most - known.least ||
      at - known.at > COMPARED ||
      // One of the clocks has jumped.
      least > known.most ||
      most < known.least;
    // Both clocks may be read in whole ms.
    if (isBetter) this.#compared = { least: least - 1, most: most + 1, at };
    this.#ahead = wallAhead();
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

/** How far the wall clock of this process is ahead of its monotonic clock, ms. */
function wallAhead(): number {
  return Date.now() - performance.now();
}
