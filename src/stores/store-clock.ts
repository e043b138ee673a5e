/** How far the store's clock may be behind before the base treats it as set back, ms. */
export const SET_BACK = 1000;

/** Compares the store's clock with the monotonic clock of this process. */
export class StoreClock {
  #now = Number.NEGATIVE_INFINITY;
  #readAt = 0;

  /** Notes a reading that has just arrived. */
  read(now: number): void {
    this.#now = now;
    this.#readAt = performance.now();
  }

  /** Whether a reading is behind even the moment at which its call was sent. */
  isBehind(now: number, sentAt: number): boolean {
    return now < this.#now + (sentAt - this.#readAt) - SET_BACK;
  }
}
