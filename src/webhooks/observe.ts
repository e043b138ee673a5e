import type { Log } from "../logger.ts";
import type { QueueObservation } from "../queue/policy.ts";
import type { FieldChanges } from "./events.ts";
import type { ReceiveObservation } from "./receiving/report.ts";

/** What `observe` is told; `kind` tells which. */
export type Observation = ReceiveObservation | QueueObservation | SilentObservation | ReconcilerAlarm;

/** `observe` gets it when no notification has arrived for `silentAfter`. */
export interface SilentObservation {
  readonly kind: "silent";
  /** When the newest notification was recorded; `undefined` where none ever was. */
  readonly lastReceivedAt: Date | undefined;
}

/** The webhook configuration is off or missing, or the endpoints of these topics are not the expected ones. */
export interface DriftObservation {
  readonly kind: "drift";
  /** Whether the platform sends notifications. */
  readonly isActive: boolean;
  /** The topics whose endpoint is not the expected one. */
  readonly topics: readonly string[];
}

/** A record had changed, and no event of it waited: its notification never arrived. An event for it is in the store now. */
export interface MissedObservation {
  readonly kind: "missed";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges;
}

/** The reconciler's alarms. The handler's `observe` gets them, too. */
export type ReconcilerAlarm = DriftObservation | MissedObservation;

/** Makes a function of the user's `observe` that does not throw: it logs what `observe` throws. */
export function safeObserve<E>(observe: ((event: E) => unknown) | undefined, log: Log): (event: E) => void {
  if (!observe) return () => {};
  const failed = (error: unknown) => log.warn("the observe function failed", { error, fromUserCode: true });
  return (event) => {
    try {
      const observed = observe(event);
      if (observed instanceof Promise) observed.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}
