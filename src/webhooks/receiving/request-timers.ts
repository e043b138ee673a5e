import { MAX_TIMER } from "../../async.ts";

/** Monotonic ms, so that setting the clock ends no request. */
export const now = (): number => performance.now();

/** {@link Deadlines.within} resolves to this when the work was not done in time. */
export const LATE: unique symbol = Symbol("late");

/** The latest time for something to happen. */
export interface Deadline {
  /** A time of {@link now}. It may be set to a later time. */
  at: number;
  readonly late: () => void;
  /** Its neighbors in the list of pending deadlines. Both are `undefined` outside the list. */
  before: Deadline | undefined;
  after: Deadline | undefined;
}

type Timer = ReturnType<typeof setTimeout> & { ref?(): unknown; unref?(): unknown };

/**
 * Many deadlines on one timer. Most requests end within a millisecond, so a timer for each would cost more than the
 * request. The timer keeps a process alive only while a deadline is pending.
 */
export class Deadlines {
  /** The head of a linked list, to which adding takes a tenth of the time that adding to a `Set` takes. */
  readonly #pending = ring();
  #timer: Timer | undefined;
  #ringsAt = Number.POSITIVE_INFINITY;

  add(at: number, late: () => void): Deadline {
    const head = this.#pending;
    const wasEmpty = this.#isEmpty;
    const deadline: Deadline = { at, late, before: head.before, after: head };
    head.before!.after = deadline;
    head.before = deadline;
    if (at < this.#ringsAt) this.#arm(at);
    else if (wasEmpty) this.#timer?.ref?.();
    return deadline;
  }

  /** Does nothing for a deadline that was removed before, or has passed. */
  remove(deadline: Deadline): void {
    if (unlink(deadline) && this.#isEmpty) this.#rest();
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
    const passed: Deadline[] = [];
    for (let each = this.#pending.after!; each !== this.#pending; each = each.after!) {
      if (each.at > time) next = Math.min(next, each.at);
      else passed.push(each);
    }
    for (const deadline of passed) if (unlink(deadline)) deadline.late();
    if (next < this.#ringsAt) this.#arm(next);
  }

  get #isEmpty(): boolean {
    return this.#pending.after === this.#pending;
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

/** The head of an empty list. */
function ring(): Deadline {
  const head: Deadline = { at: 0, late: () => {}, before: undefined, after: undefined };
  head.before = head;
  head.after = head;
  return head;
}

/** @returns `false` where the deadline is in no list */
function unlink(deadline: Deadline): boolean {
  const { before, after } = deadline;
  if (before === undefined || after === undefined) return false;
  before.after = after;
  after.before = before;
  deadline.before = undefined;
  deadline.after = undefined;
  return true;
}

/** Whether a timer outlives the request that set it. On Workers it does not. */
const sharesTimers = /^(Node\.js|Bun|Deno)\b/.test(globalThis.navigator?.userAgent ?? "");

/** Makes the function that gives each request its deadlines. All requests share them where timers outlive a request. */
export function deadlineSource(): () => Deadlines {
  if (!sharesTimers) return () => new Deadlines();
  const shared = new Deadlines();
  return () => shared;
}
