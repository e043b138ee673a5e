import type { Log } from "../logger.ts";
import type { QueueObservation } from "../queue/policy.ts";
import type { FieldChanges } from "./events.ts";
import type { ReceiveObservation } from "./receiving/answers.ts";

/** The argument of `observe`. `kind` narrows it. */
export type Observation = ReceiveObservation | QueueObservation | SilentObservation | ReconcilerAlarm;

/** `observe` gets it when no notification has arrived for `silentAfter`. */
export interface SilentObservation {
  readonly kind: "silent";
  /** When the newest notification was recorded. `undefined` if there was never one. */
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

/** Wraps the user's `observe` so that it never throws. Its errors are logged. */
export function safeObserve<E>(observe: ((event: E) => unknown) | undefined, log: Log): (event: E) => void {
  if (!observe) return () => {};
  const failed = (error: unknown) => log.warn("the `observe` function threw", { error, fromUserCode: true });
  return (event) => {
    try {
      const observed = observe(event);
      if (observed instanceof Promise) observed.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}

type Of<K extends QueueObservation["kind"]> = Extract<QueueObservation, { kind: K }>;

/** Logs failures, parked events, pauses and silence. */
export function logTrouble(event: QueueObservation | SilentObservation, log: Log): void {
  switch (event.kind) {
    case "failed": {
      const next = `The next attempt is in ${readableDuration(event.retryIn)}`;
      writeTrouble(
        event,
        log,
        "warn",
        `attempt ${event.attempt} at ${nameOf(event)} failed (${event.reason}). ${next}`,
      );
      break;
    }
    case "parked":
      writeTrouble(
        event,
        log,
        "error",
        `gave up ${nameOf(event)} (${event.reason}). The event is parked until you replay it`,
      );
      break;
    case "paused": {
      const { error } = event;
      const next = `The next try is in ${readableDuration(event.wait)}. Notifications are still recorded`;
      log.warn(`processing is paused, because the platform is out of reach. ${next}`, { error });
      break;
    }
    case "resumed":
      log.warn("the platform answers again. Processing continues");
      break;
    case "silent": {
      const { lastReceivedAt } = event;
      const since = lastReceivedAt ? ` since ${lastReceivedAt.toISOString()}` : "";
      log.warn(`no notification has arrived${since}. Is the webhook configuration still active?`);
    }
  }
}

function nameOf({ eventId, ref, type }: Of<"failed" | "parked">): string {
  return `event ${eventId} (${[type, ref ?? "no record"].filter(Boolean).join(", ")})`;
}

function writeTrouble(
  event: Of<"failed" | "parked">,
  log: Log,
  level: "warn" | "error",
  message: string,
): void {
  const { eventId, ref, type, attempt, reason, error } = event;
  const details = { error, eventId, ref, type, attempt, reason };
  // A stranger causes these two with forged ids.
  if (reason === "not-found" || reason === "denied")
    log.limited(`${event.kind} ${reason}`, level, message, details);
  else log[level](message, details);
}

/** Shows ms in a unit that people read, such as `5 min`. */
function readableDuration(ms: number): string {
  const units = [
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ] as const;
  const [size, unit] = units.find(([least]) => ms >= least) ?? [1, "ms"];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}
