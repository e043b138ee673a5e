// Wakes the loop, the drains and the inline requests when they may go on.

import { inNextTurn } from "../async.ts";

/** From this many running attempts on, several usually end in one turn of the event loop. */
const MANY = 8;

/** Lets many wait for the next change of the queue. */
export class ChangeSignal {
  readonly #running: () => number;
  #next = Promise.withResolvers<void>();
  /** Whether `#next` resolves in the next turn. */
  #isComing = false;
  /** Grows when another event may be due, so that a drain that has found nothing looks again. */
  looks = 0;

  /** @param running - returns how many attempts run */
  constructor(running: () => number) {
    this.#running = running;
  }

  /** Resolves at the next change. */
  get next(): Promise<void> {
    return this.#next.promise;
  }

  /**
   * Resolves {@link next}. While many attempts run, waits for the next turn of the event loop, so that the attempts that
   * end in this turn share one claim.
   */
  tell(): void {
    if (this.#isComing) return;
    if (this.#running() < MANY) this.#resolve();
    else {
      this.#isComing = true;
      inNextTurn(() => {
        this.#isComing = false;
        this.#resolve();
      });
    }
  }

  #resolve(): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    resolve();
  }
}
