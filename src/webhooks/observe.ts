import type { Log } from "../logger.ts";
import type { FieldChanges } from "./events.ts";

/** `observe` gets it when no notification has arrived for `silentAfter`. */
export interface SilentObservation {
  readonly kind: "silent";
  /** When the newest notification was recorded; `undefined` where none ever was. */
  readonly lastReceivedAt: Date | undefined;
}

/** `observe` gets it when the reconciler finds a change that no notification has told of. */
export interface MissedObservation {
  readonly kind: "missed";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  readonly changes: FieldChanges;
}

/** Makes a function of the user's `observe` that does not throw: it logs what `observe` throws. */
export function safeObserve<E>(observe: ((event: E) => unknown) | undefined, log: Log): (event: E) => void {
  if (!observe) return () => {};
  const failed = (error: unknown) => log.warn("The observe function failed", { error });
  return (event) => {
    try {
      const observed = observe(event);
      if (observed instanceof Promise) observed.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}
