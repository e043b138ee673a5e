// The times that an event tells, read from its notification or its own JSON.

import { isoTimestamp } from "../../models/dates.ts";
import { parseExactly } from "../../models/exact-json.ts";
import type { WebhookNotification } from "../../models/notification.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";

/** The JSON that a recheck stores in the place of a notification. */
export interface RecheckJson {
  /** The `timestamp` and `decideBy` of the notification that caused the recheck, ISO 8601. */
  readonly timestamp?: string | undefined;
  readonly decideBy?: string | undefined;
  /** Whether the notification cannot have been sent for what was read, so that a third look follows if nothing changes. */
  readonly unexplained?: boolean;
  /** If the recheck was due when it was recorded: the claim time of that attempt, so that a read since then serves it. */
  readonly servedSince?: number;
  /** The id of the notification's event. */
  readonly recheckOf?: string;
}

/** What the times of an event are read from. */
type TimedEvent = Pick<ClaimedEvent, "source" | "timestamp" | "notification" | "receivedAt">;

/** Returns the time at which the event happened. If the notification has no readable time, returns `receivedAt`. */
export function timestampOf(claim: TimedEvent, notification = notificationOf(claim)): Date {
  if (claim.source === "recheck") return toldBy(claim).timestamp;
  // An event without a notification, such as a reconcile event, keeps its own timestamp.
  const isUnknown = notification && isoTimestamp(notification.timestamp) === undefined;
  return new Date(isUnknown ? claim.receivedAt : claim.timestamp);
}

/**
 * Returns since when a booking is a request, epoch ms: the earliest time that an event of the request has told. A later
 * notification or read must not move the deadline, because the platform's 24 hours have begun.
 *
 * @param known - the time that was known before the event, if the booking was a request already
 */
export function requestedAtOf(claim: TimedEvent, known: number | undefined): number {
  const decideBy = decideByOf(claim);
  const told = decideBy === undefined ? timestampOf(claim).getTime() : decideBy.getTime() - DAY;
  return Math.min(told, known ?? told);
}

/** Returns the deadline for the host's decision on a request. */
export function deadlineOf(requestedAt: number): Date {
  return new Date(requestedAt + DAY);
}

/** Returns the deadline that the notification of an event tells; `undefined` if no notification caused the event. */
export function decideByOf(claim: TimedEvent): Date | undefined {
  if (claim.source === "recheck") return toldBy(claim).decideBy;
  return claim.source === "webhook"
    ? decisionDeadline(timestampOf(claim).getTime(), claim.receivedAt)
    : undefined;
}

/** Reads the times of the notification that caused a recheck from the recheck's own JSON. */
function toldBy({ notification, timestamp }: TimedEvent) {
  const told = JSON.parse(notification ?? "{}") as RecheckJson;
  return {
    timestamp: new Date(told.timestamp ?? timestamp),
    decideBy: told.decideBy === undefined ? undefined : new Date(told.decideBy),
  };
}

export function notificationOf({ source, notification }: TimedEvent) {
  return source === "webhook" && notification !== null
    ? (parseExactly(notification) as WebhookNotification)
    : undefined;
}

const DAY = 24 * 60 * 60_000;
/** How long before and after the arrival of its notification a plausible timestamp may be at most, ms. */
const [MOST_BEFORE, MOST_AFTER] = [7 * DAY, 5 * 60_000];

/** Adds 24 hours to the timestamp `told`, or to `receivedAt` if `told` is not plausible. Both times are epoch ms. */
export function decisionDeadline(told: number, receivedAt: number): Date {
  const isPlausible = told >= receivedAt - MOST_BEFORE && told <= receivedAt + MOST_AFTER;
  return new Date((isPlausible ? told : receivedAt) + DAY);
}
