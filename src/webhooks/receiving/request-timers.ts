import { MAX_TIMER } from "../../async.ts";

/** The monotonic time in ms, so that a change of the system clock does not end requests. */
export const now = (): number => performance.now();

/** The result of {@link Deadlines.within} if the work did not end in time. */
export const LATE: unique symbol = Symbol("late");

/** A time limit, with a function to call when the limit has passed. */
export interface Deadline {
  /** When the limit passes, by {@link now}. Callers may set a later time. */
  at: number;
  readonly late: () => void;
  /** `before` and `after` are the neighbors in the list of pending deadlines. They are `undefined` outside the list. */
  before: Deadline | undefined;
  after: Deadline | undefined;
}

type Timer = ReturnType<typeof setTimeout> & { ref?(): unknown; unref?(): unknown };

/**
 * Runs many deadlines on one timer. Most requests end within a millisecond, so a timer for each request would cost more
 * than the request. The timer keeps a process alive only while a deadline is pending.
 */
export class Deadlines {
  /** The head of a linked list. Adding to the list is ten times as fast as adding to a `Set`. */
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

  /** Settles like `work` if `work` ends before the time `at`. Otherwise, resolves to {@link LATE}. */
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

  // If the timer has `unref`, keep the timer for the next request. After `unref`, the process can end.
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

/** Makes the head of an empty list. */
function ring(): Deadline {
  const head: Deadline = { at: 0, late: () => {}, before: undefined, after: undefined };
  head.before = head;
  head.after = head;
  return head;
}

/** Removes a deadline from its list. Returns `false` if the deadline is in no list. */
function unlink(deadline: Deadline): boolean {
  const { before, after } = deadline;
  if (before === undefined || after === undefined) return false;
  before.after = after;
  after.before = before;
  deadline.before = undefined;
  deadline.after = undefined;
  return true;
}

/** Whether a timer outlives the request that set it. On Cloudflare Workers, the timer ends with the request. */
const sharesTimers = /^(Node\.js|Bun|Deno)\b/.test(globalThis.navigator?.userAgent ?? "");

/**
 * Makes the function that returns the `Deadlines` object for a request. If timers outlive a request, all requests
 * share one object.
 */
export function deadlineSource(): () => Deadlines {
  if (!sharesTimers) return () => new Deadlines();
  const shared = new Deadlines();
  return () => shared;
}
