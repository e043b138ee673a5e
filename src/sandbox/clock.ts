import type { Closing } from "./closing.ts";

/** The sandbox's own time: that of the machine, moved ahead by as much as it was told to. */
export interface Clock {
  /** ms since 1970 */
  now(): number;
  /** Calls `wake` after so many ms, or at once when the sandbox closes; without a wait, as soon as what runs now is over. */
  schedule(ms: number, wake: () => void): void;
  /** Resolves when `schedule` would call. */
  wait(ms: number): Promise<void>;
  /** When the first that waits is due; `undefined` where nothing waits. */
  next(): number | undefined;
  /** Moves ahead to this time, and calls what is due by then. The rest is to be set anew when it has come to rest. */
  moveTo(time: number): void;
  /** Sets what still waits by the time that it is now. */
  setAnew(): void;
}

interface Alarm {
  readonly due: number;
  timer: NodeJS.Timeout;
  ring(): void;
}

export function createClock(closing: Closing): Clock {
  const alarms = new Set<Alarm>();
  let ahead = 0;
  const now = (): number => Date.now() + ahead;

  const schedule = (ms: number, wake: () => void): void => {
    if (ms === 0 || closing.closed) {
      queueMicrotask(wake);
      return;
    }
    const ring = (): void => {
      clearTimeout(alarm.timer);
      alarms.delete(alarm);
      forget();
      wake();
    };
    const alarm: Alarm = { due: now() + ms, timer: setTimeout(ring, ms), ring };
    const forget = closing.onClose(ring);
    alarms.add(alarm);
  };

  return {
    now,
    schedule,
    wait: (ms) => new Promise((resolve) => schedule(ms, resolve)),
    next: () =>
      alarms.size === 0
        ? undefined
        : [...alarms].reduce((first, { due }) => Math.min(first, due), Number.POSITIVE_INFINITY),
    moveTo(time) {
      // The machine's own time may have come further meanwhile.
      ahead = Math.max(ahead, time - Date.now());
      for (const alarm of [...alarms]) if (alarm.due <= time) alarm.ring();
    },
    setAnew() {
      for (const alarm of alarms) {
        clearTimeout(alarm.timer);
        alarm.timer = setTimeout(alarm.ring, Math.max(0, alarm.due - now()));
      }
    },
  };
}
