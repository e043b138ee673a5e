/** The sandbox's time: the machine's time plus what `advance` added. It stops when the sandbox closes. */
export interface Clock {
  /** ms since 1970 */
  now(): number;
  /** Calls `wake` after so many ms, at once when the clock stops, and in a microtask for 0 ms. */
  schedule(ms: number, wake: () => void): void;
  /** Resolves when `schedule` would call. */
  wait(ms: number): Promise<void>;
  /** The time of the next alarm; `undefined` without alarms. */
  nextDue(): number | undefined;
  /** Moves ahead to a time, and rings the alarms that are due by then. Call {@link rearm} after the last move. */
  moveTo(time: number): void;
  /** Sets the timers of all alarms anew, by the present time. */
  rearm(): void;
  readonly stopped: boolean;
  /**
   * Calls the listener when the clock stops. An AbortSignal would not do: Node warns when many listen to one.
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
      // Not Math.min(...): there may be more alarms than a call takes arguments.
      let next: number | undefined;
      for (const { due } of alarms) next = next === undefined ? due : Math.min(next, due);
      return next;
    },
    moveTo(time) {
      // The machine's own time may already be later.
      ahead = Math.max(ahead, time - Date.now());
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
      for (const listener of listeners) listener();
    },
  };
}
