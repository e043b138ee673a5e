import { MAX_TIMER } from "../../async.ts";

/** Monotonic ms: a clock that is set must not end a request. */
export const now = (): number => performance.now();

/** What {@link Deadlines.within} resolves to when the work was not done in time. */
export const LATE: unique symbol = Symbol("late");

/** A moment by which something must have happened. */
export interface Deadline {
  /** By {@link now}. May be moved on at no cost. */
  at: number;
  readonly late: () => void;
}

type Timer = ReturnType<typeof setTimeout> & { ref?(): unknown; unref?(): unknown };

/**
 * Many deadlines over one timer. Most of them are met within a millisecond: a timer for each would be made and
 * thrown away for nothing. The timer holds a process open only while something is awaited.
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

  /** Settles as `work` does, or resolves to {@link LATE}; how `work` ends after that is of no interest. */
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

  // The timer stays for the next request where that holds nothing open.
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

/** Where a timer of one request still rings when that request is over. On Workers it does not. */
const sharesTimers = /^(Node\.js|Bun|Deno)\b/.test(globalThis.navigator?.userAgent ?? "");

/** What gives each request its deadlines: the same for all where they can share a timer. */
export function deadlineSource(): () => Deadlines {
  if (!sharesTimers) return () => new Deadlines();
  const shared = new Deadlines();
  return () => shared;
}
