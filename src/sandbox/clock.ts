import { moveClock } from "../clock.ts";

/**
 * The sandbox's clock: the machine's time plus the ms that `advance` added. The memory store and the timers of handlers
 * in the same process follow this clock.
 */
export interface Clock {
  /** ms since 1970 */
  now(): number;
  /** Calls `wake` after `ms` or when the clock stops. If `ms` is 0, calls `wake` in a microtask. */
  schedule(ms: number, wake: () => void): void;
  /** Resolves after `ms`, or as soon as the clock stops. */
  wait(ms: number): Promise<void>;
  /** Returns the time of the next scheduled call in ms since 1970, or `undefined` if there is none. */
  nextDue(): number | undefined;
  /** Moves the clock ahead to `time`, and runs all due calls. After the last `moveTo`, call {@link rearm}. */
  moveTo(time: number): void;
  /** Restarts the timer of each scheduled call with the remaining time, because `moveTo` does not change the timers. */
  rearm(): void;
  readonly stopped: boolean;
  /**
   * Calls the listener when the clock stops. Do not use an AbortSignal instead: Node warns about many listeners.
   *
   * @returns a function that removes the listener
   */
  onStop(listener: () => void): () => void;
  stop(): void;
}

interface ScheduledCall {
  readonly due: number;
  timer: NodeJS.Timeout;
  run(): void;
}

export function createClock(): Clock {
  const calls = new Set<ScheduledCall>();
  const listeners = new Set<() => void>();
  let stopped = false;
  let ahead = 0;
  const now = (): number => Date.now() + ahead;

  const onStop = (listener: () => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };

  const schedule = (ms: number, wake: () => void): void => {
    if (ms === 0 || stopped) {
      void Promise.resolve().then(wake);
      return;
    }
    const run = (): void => {
      clearTimeout(call.timer);
      calls.delete(call);
      removeListener();
      wake();
    };
    const call: ScheduledCall = { due: now() + ms, timer: setTimeout(run, ms), run };
    const removeListener = onStop(run);
    calls.add(call);
  };

  return {
    now,
    schedule,
    wait: (ms) => new Promise((resolve) => schedule(ms, resolve)),
    nextDue() {
      // Do not pass all due times to `Math.min`: a call with too many arguments throws.
      let next: number | undefined;
      for (const { due } of calls) next = next === undefined ? due : Math.min(next, due);
      return next;
    },
    moveTo(time) {
      // Never move the clock back: `time` may be in the past.
      ahead = Math.max(ahead, time - Date.now());
      moveClock(calls, ahead);
      for (const call of [...calls]) if (call.due <= time) call.run();
    },
    rearm() {
      for (const call of calls) {
        clearTimeout(call.timer);
        call.timer = setTimeout(call.run, Math.max(0, call.due - now()));
      }
    },
    get stopped() {
      return stopped;
    },
    onStop,
    stop() {
      stopped = true;
      moveClock(calls, undefined);
      for (const listener of listeners) listener();
    },
  };
}
