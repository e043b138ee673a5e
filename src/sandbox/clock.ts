import { moveClock } from "../clock.ts";

/**
 * The sandbox's clock: the machine's time plus the ms that `advance` added. The memory store and the timers of handlers
 * in the same process follow this clock.
 */
export interface Clock {
  /** ms since 1970 */
  now(): number;
  /** Sets an alarm: calls `wake` after `ms` or when the clock stops. If `ms` is 0, calls `wake` in a microtask. */
  schedule(ms: number, wake: () => void): void;
  /** Resolves after `ms`, or as soon as the clock stops. */
  wait(ms: number): Promise<void>;
  /** Returns the time of the next alarm in ms since 1970, or `undefined` if no alarm is set. */
  nextDue(): number | undefined;
  /** Moves the clock ahead to `time`, and rings all due alarms. After the last `moveTo`, call {@link rearm}. */
  moveTo(time: number): void;
  /** Restarts the timer of each alarm with the remaining time, because `moveTo` does not change the timers. */
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

interface Alarm {
  readonly due: number;
  timer: NodeJS.Timeout;
  ring(): void;
}

export function createClock(): Clock {
  const alarms = new Set<Alarm>();
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
      queueMicrotask(wake);
      return;
    }
    const ring = (): void => {
      clearTimeout(alarm.timer);
      alarms.delete(alarm);
      removeListener();
      wake();
    };
    const alarm: Alarm = { due: now() + ms, timer: setTimeout(ring, ms), ring };
    const removeListener = onStop(ring);
    alarms.add(alarm);
  };

  return {
    now,
    schedule,
    wait: (ms) => new Promise((resolve) => schedule(ms, resolve)),
    nextDue() {
      // Do not pass all due times to `Math.min`: a call with too many arguments throws.
      let next: number | undefined;
      for (const { due } of alarms) next = next === undefined ? due : Math.min(next, due);
      return next;
    },
    moveTo(time) {
      // Never move the clock back: `time` may be in the past.
      ahead = Math.max(ahead, time - Date.now());
      moveClock(alarms, ahead);
      for (const alarm of [...alarms]) if (alarm.due <= time) alarm.ring();
    },
    rearm() {
      for (const alarm of alarms) {
        clearTimeout(alarm.timer);
        alarm.timer = setTimeout(alarm.ring, Math.max(0, alarm.due - now()));
      }
    },
    get stopped() {
      return stopped;
    },
    onStop,
    stop() {
      stopped = true;
      moveClock(alarms, undefined);
      for (const listener of listeners) listener();
    },
  };
}
