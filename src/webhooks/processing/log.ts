import type { Log } from "../../logger.ts";
import type { QueueObservation } from "../../queue/policy.ts";
import type { SilentObservation } from "../observe.ts";

type Of<K extends QueueObservation["kind"]> = Extract<QueueObservation, { kind: K }>;

/** Logs failures, parked events, pauses and silence. */
export function logTrouble(event: QueueObservation | SilentObservation, log: Log): void {
  switch (event.kind) {
    case "failed": {
      const next = `The next attempt is in ${duration(event.retryIn)}`;
      log.warn(
        `attempt ${event.attempt} at ${nameOf(event)} failed (${event.reason}). ${next}`,
        detailsOf(event),
      );
      break;
    }
    case "parked":
      log.error(
        `gave up ${nameOf(event)} (${event.reason}). The event is parked until it is replayed`,
        detailsOf(event),
      );
      break;
    case "paused": {
      const { error } = event;
      const next = `The next try is in ${duration(event.wait)}. Notifications are still recorded`;
      log.warn(`processing is paused, because the platform is out of reach. ${next}`, { error });
      break;
    }
    case "resumed":
      log.warn("the platform answers again. Processing goes on");
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

function detailsOf({ eventId, ref, type, attempt, reason, error }: Of<"failed" | "parked">) {
  return { error, eventId, ref, type, attempt, reason };
}

/** A duration for people to read. */
export function duration(ms: number): string {
  const units = [
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ] as const;
  const [size, unit] = units.find(([least]) => ms >= least) ?? [1, "ms"];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}
