import type { EventState } from "../../stores/event-store.ts";

/** How old a count may be, ms. */
const FRESH = 1000;
/** From this age on, a count is renewed before somebody has to wait for it, ms. */
const RENEW = 500;

/** Says whether too many events wait for the store to take another. */
export class Backlog {
  readonly #count: () => Promise<Record<EventState, number>>;
  readonly #most: number;
  #waiting = 0;
  #countedAt = Number.NEGATIVE_INFINITY;
  #counting: Promise<void> | undefined;

  constructor(count: () => Promise<Record<EventState, number>>, most: number) {
    this.#count = count;
    this.#most = most;
  }

  /** Without a promise where a count is at hand. */
  isFull(): boolean | Promise<boolean> {
    if (this.#most === Number.POSITIVE_INFINITY) return false;
    const age = performance.now() - this.#countedAt;
    if (age > RENEW) this.#counting ??= this.#renew();
    return age <= FRESH ? this.#answer : this.#counting!.then(() => this.#answer);
  }

  get #answer(): boolean {
    return this.#waiting > this.#most;
  }

  async #renew(): Promise<void> {
    const startedAt = performance.now();
    try {
      const { pending, processing, retrying } = await this.#count();
      this.#waiting = pending + processing + retrying;
      this.#countedAt = startedAt;
    } catch {
      // The store says by the next `add` what is wrong with it.
      this.#waiting = 0;
    } finally {
      this.#counting = undefined;
    }
  }
}
