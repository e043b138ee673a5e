import type { Logger } from "../../logger.ts";
import { describeThrown } from "../../queue/outcome.ts";
import type { QueueObservation } from "../../queue/policy.ts";

type Of<K extends QueueObservation["kind"]> = Extract<QueueObservation, { kind: K }>;

/** Says in the log what nobody should have to ask for: what failed, what was given up, and that the platform is away. */
export function logTrouble(event: QueueObservation, logger: Logger): void {
  switch (event.kind) {
    case "failed":
      logger.warn(
        `stayhook: ${nameOf(event)} failed (${event.reason}, attempt ${event.attempt}), the next attempt is in ${duration(event.retryIn)}`,
        shown(event),
      );
      break;
    case "parked":
      logger.error(
        `stayhook: ${nameOf(event)} is given up (${event.reason}) and parked, until it is replayed`,
        shown(event),
      );
      break;
    case "paused":
      logger.warn(
        event.cause === "refused"
          ? `stayhook: record after record is refused or not found; is the base URL right? The next try is in ${duration(event.wait)}. ${describeThrown(event.error)}`
          : `stayhook: the platform is out of reach; the next try is in ${duration(event.wait)}, notifications are still recorded. ${describeThrown(event.error)}`,
      );
      break;
    case "resumed":
      logger.warn("stayhook: the platform answers again");
  }
}

function nameOf({ eventId, ref, type }: Of<"failed" | "parked">): string {
  return [ref ?? "an event without a record", type && `(${type})`, `of event ${eventId}`]
    .filter(Boolean)
    .join(" ");
}

/** The user's own errors with their stack; what the client says fits into a line. */
function shown({ reason, error }: Of<"failed" | "parked">): unknown {
  return reason === "callback" && error instanceof Error ? error : describeThrown(error);
}

function duration(ms: number): string {
  const units = [
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ] as const;
  const [size, unit] = units.find(([least]) => ms >= least) ?? [1, "ms"];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}
