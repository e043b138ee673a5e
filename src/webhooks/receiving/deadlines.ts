// The time limits of requests, on one timer.

/** A request with a time limit. */
export interface Limited {
  /** When the limit passes, by {@link now}. */
  readonly at: number;
  /** Called once, when the limit has passed. */
  late(): void;
}

/** The monotonic time in ms, so that a change of the system clock does not end requests. */
export const now = (): number => performance.now();

type Timer = ReturnType<typeof setTimeout> & { ref?(): unknown; unref?(): unknown };

/**
 * Runs the time limits of many requests on one timer. Most requests end within a millisecond, so a timer for each
 * request would cost more than the request. The timer keeps a process alive only while a request is pending.
 */
export class Deadlines {
  /** How long each limit is, ms. All limits have the same length, so the first one in the set passes first. */
  readonly limit: number;
  readonly #pending = new Set<Limited>();
  #timer: Timer | undefined;

  constructor(limit: number) {
    this.limit = limit;
  }

  add(request: Limited): void {
    if (this.#timer === undefined) this.#set(request.at);
    else if (this.#pending.size === 0) this.#timer.ref?.();
    this.#pending.add(request);
  }

  remove(request: Limited): void {
    if (this.#pending.delete(request) && this.#pending.size === 0) this.#rest();
  }

  #set(at: number): void {
    this.#timer = setTimeout(() => this.#ring(), Math.max(at - now(), 0));
  }

  #ring(): void {
    this.#timer = undefined;
    const time = now();
    for (const request of this.#pending) {
      if (request.at > time) {
        this.#set(request.at);
        return;
      }
      this.#pending.delete(request);
      request.late();
    }
  }

  // If the timer has `unref`, keep the timer for the next request. After `unref`, the process can end.
  #rest(): void {
    if (this.#timer?.unref !== undefined) return void this.#timer.unref();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** Whether a timer outlives the request that set it. On Cloudflare Workers, the timer ends with the request. */
const sharesTimers = /^(Node\.js|Bun|Deno)\b/.test(globalThis.navigator?.userAgent ?? "");

/** Makes the function that returns the `Deadlines` of a request. Requests share them if timers outlive a request. */
export function deadlineSource(limit: number): () => Deadlines {
  if (!sharesTimers) return () => new Deadlines(limit);
  const shared = new Deadlines(limit);
  return () => shared;
}
