import { moveClock } from "../clock.ts";

interface ScheduledCall {
  readonly due: number;
  timer: NodeJS.Timeout;
  run(): void;
}

/**
 * The sandbox's clock: the machine's time plus the ms that `advance` added. The memory store and the timers of handlers
 * in the same process follow this clock.
 */
export class Clock {
  readonly #calls = new Set<ScheduledCall>();
  readonly #listeners = new Set<() => void>();
  #ahead = 0;
  #stopped = false;

  get stopped(): boolean {
    return this.#stopped;
  }

  /** ms since 1970 */
  now(): number {
    return Date.now() + this.#ahead;
  }

  /** Calls `wake` after `ms` or when the clock stops. If `ms` is 0, calls `wake` in a microtask. */
  schedule(ms: number, wake: () => void): void {
    if (ms === 0 || this.#stopped) {
      void Promise.resolve().then(wake);
      return;
    }
    const run = (): void => {
      clearTimeout(call.timer);
      this.#calls.delete(call);
      removeListener();
      wake();
    };
    const call: ScheduledCall = { due: this.now() + ms, timer: setTimeout(run, ms), run };
    const removeListener = this.onStop(run);
    this.#calls.add(call);
  }

  /** Resolves after `ms`, or as soon as the clock stops. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.schedule(ms, resolve));
  }

  /** Returns the time of the next scheduled call in ms since 1970, or `undefined` if there is none. */
  nextDue(): number | undefined {
    // Do not pass all due times to `Math.min`: a call with too many arguments throws.
    let next: number | undefined;
    for (const { due } of this.#calls) next = next === undefined ? due : Math.min(next, due);
    return next;
  }

  /**
   * Moves the clock ahead to `time`, and runs all due calls. After the last `moveTo`, call {@link rearm}. After `stop`,
   * it does nothing, because nobody would move the clock of the process back.
   */
  moveTo(time: number): void {
    if (this.#stopped) return;
    // Never move the clock back: `time` may be in the past.
    this.#ahead = Math.max(this.#ahead, time - Date.now());
    moveClock(this, this.#ahead);
    for (const call of [...this.#calls]) if (call.due <= time) call.run();
  }

  /** Restarts the timer of each scheduled call with the remaining time, because `moveTo` does not change the timers. */
  rearm(): void {
    for (const call of this.#calls) {
      clearTimeout(call.timer);
      call.timer = setTimeout(call.run, Math.max(0, call.due - this.now()));
    }
  }

  /**
   * Calls the listener when the clock stops. Do not use an AbortSignal instead: Node warns about many listeners.
   *
   * @returns a function that removes the listener
   */
  onStop(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  stop(): void {
    this.#stopped = true;
    moveClock(this, undefined);
    for (const listener of this.#listeners) listener();
  }
}
