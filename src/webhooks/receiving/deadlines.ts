import { MAX_TIMER } from "../../async.ts";

/** Monotonic ms, so that setting the clock ends no request. */
export const now = (): number => performance.now();

/** What {@link Deadlines.within} resolves to when the work was not done in time. */
export const LATE: unique symbol = Symbol("late");

/** The latest time for something to happen. */
export interface Deadline {
  /** By {@link now}. May be set to a later time. */
  at: number;
  readonly late: () => void;
}

type Timer = ReturnType<typeof setTimeout> & { ref?(): unknown; unref?(): unknown };

/**
 * Many deadlines on one timer. Most requests end within a millisecond, so a timer for each would cost more than the
 * request. The timer keeps a process alive only while a deadline is pending.
 */
export class Deadlines {
  readonly #pending = new Set<Deadline>();
  #timer: Timer | undefined;
  #ringsAt = Number.POSITIVE_INFINITY;

  add(at: number, late: () => void): Deadline {
    const deadline: Deadline = { at, late };
    this.#pending.add(deadline);
    if (at < this.#ringsAt) this.#arm(at);
    else if (this.#pending.size === 1) this.#timer?.ref?.();
    return deadline;
  }

  remove(deadline: Deadline): void {
    if (this.#pending.delete(deadline) && this.#pending.size === 0) this.#rest();
  }

  /** Settles as `work` does, or resolves to {@link LATE} at `at` and ignores how `work` ends. */
  within<T>(work: T | PromiseLike<T>, at: number): Promise<T | typeof LATE> {
    return new Promise((resolve, reject) => {
      const deadline = this.add(at, () => resolve(LATE));
      Promise.resolve(work).then(
        (value) => {
          this.remove(deadline);
          resolve(value);
        },
        (error) => {
          this.remove(deadline);
          reject(error);
        },
      );
    });
  }

  #arm(at: number): void {
    clearTimeout(this.#timer);
    this.#ringsAt = at;
    this.#timer = setTimeout(() => this.#ring(), Math.min(Math.max(at - now(), 0), MAX_TIMER));
  }

  #ring(): void {
    this.#timer = undefined;
    this.#ringsAt = Number.POSITIVE_INFINITY;
    const time = now();
    let next = Number.POSITIVE_INFINITY;
    for (const deadline of this.#pending) {
      if (deadline.at > time) next = Math.min(next, deadline.at);
      else {
        this.#pending.delete(deadline);
        deadline.late();
      }
    }
    if (next < this.#ringsAt) this.#arm(next);
  }

  // The timer stays for the next request if it can be unref'd, so that it does not keep the process alive.
  #rest(): void {
    if (this.#timer === undefined) return;
    if (this.#timer.unref !== undefined) this.#timer.unref();
    else {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#ringsAt = Number.POSITIVE_INFINITY;
    }
  }
}

/** Whether a timer outlives the request that set it. On Workers it does not. */
const sharesTimers = /^(Node\.js|Bun|Deno)\b/.test(globalThis.navigator?.userAgent ?? "");

/** Makes the function that gives each request its deadlines. All requests share them where timers outlive a request. */
export function deadlineSource(): () => Deadlines {
  if (!sharesTimers) return () => new Deadlines();
  const shared = new Deadlines();
  return () => shared;
}
