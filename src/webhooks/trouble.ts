// The log lines of what goes wrong.

import type { Log } from "../logger.ts";
import type { QueueObservation } from "../queue/work.ts";
import type { SilentObservation } from "./observability.ts";

type Of<K extends QueueObservation["kind"]> = Extract<QueueObservation, { kind: K }>;

/** Logs failures, parked events, pauses and silence. */
export function logTrouble(event: QueueObservation | SilentObservation, log: Log): void {
  switch (event.kind) {
    case "failed": {
      const next = `The next attempt is in ${readableDuration(event.retryIn)}`;
      // Attempts whose read failed do not change the number.
      const isCall = event.reason === "callback" || event.reason === "invalid-record";
      const attempt = isCall ? `attempt ${event.attempt}` : "an attempt";
      writeTrouble(event, log, "warn", `${attempt} at ${nameOf(event)} failed (${event.reason}). ${next}`);
      break;
    }
    case "parked":
      writeTrouble(
        event,
        log,
        "error",
        `gave up on ${nameOf(event)} (${event.reason}). The event is parked. To try again, replay the event`,
      );
      break;
    case "paused": {
      const { error, scope, account, ref } = event;
      const whose = account === undefined ? "" : ` of account ${account}`;
      const next = `The next request is in ${readableDuration(event.wait)}. Notifications are still recorded`;
      const [what, fails] =
        scope === "everything" || scope === "account"
          ? ["processing", "requests to the platform fail"]
          : [`processing of ${scope}`, `reads of ${scope} fail`];
      const details = { error, ref, ...(account !== undefined && { account }) };
      log.warn(`${what}${whose} is paused, because ${fails}. ${next}`, details);
      break;
    }
    case "resumed":
      log.warn(
        `the pause${forAccount(event)} has ended, because the platform answers again or nothing waits for it`,
      );
      break;
    case "silent": {
      const { lastReceivedAt } = event;
      const since = lastReceivedAt ? ` since ${lastReceivedAt.toISOString()}` : "";
      log.warn(`no notification has arrived${since}. Is the webhook configuration still active?`);
    }
  }
}

function forAccount({ account }: Of<"resumed">): string {
  return account === undefined ? "" : ` for account ${account}`;
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
  // Limit the log lines of these two failures, because a stranger can cause them with forged ids.
  if (reason === "not-found" || reason === "denied")
    log.limited(`${event.kind} ${reason}`, level, message, details);
  else log[level](message, details);
}

/** Formats ms in the largest unit that fits, such as `5 min`, and at least in tenths of a second. */
function readableDuration(ms: number): string {
  const units = [
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ] as const;
  const [size, unit] = units.find(([least]) => ms >= least) ?? [1000, "s"];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}
