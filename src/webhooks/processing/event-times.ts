// The times that an event tells, read from its notification or its own JSON.

import { isoTimestamp } from "../../models/dates.ts";
import type { ClaimedEvent } from "../../stores/event-store.ts";
import { decisionDeadline } from "../events.ts";

/** The JSON that a recheck stores in the place of a notification. */
export interface RecheckJson {
  /** The `timestamp` and `decideBy` of the notification that caused the recheck, ISO 8601. */
  readonly timestamp?: string;
  readonly decideBy?: string;
  /** By name: the time of a timer that has asked for the recheck, and when that timer was set. */
  readonly timers?: Readonly<Record<string, string>>;
}

/** Returns the time at which the event happened. If the notification has no readable time, returns `receivedAt`. */
export function timestampOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date {
  if (claim.source === "recheck") return toldBy(claim).timestamp;
  // An event without a notification, such as a reconcile event, keeps its own timestamp.
  const isUnknown = notification && isoTimestamp(notification.timestamp) === undefined;
  return new Date(isUnknown ? claim.receivedAt : claim.timestamp);
}

/** Returns the deadline for the host's decision, or `undefined` if it is unknown, as for a reconcile event. */
export function decideByOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date | undefined {
  if (claim.source === "reconcile") return undefined;
  if (claim.source === "recheck") return toldBy(claim).decideBy;
  const told = timestampOf(claim, notification).getTime();
  return decisionDeadline(told, claim.receivedAt);
}

/** Reads the times of the notification that caused a recheck from the recheck's own JSON. */
function toldBy({ notification, timestamp }: ClaimedEvent) {
  const told = JSON.parse(notification ?? "{}") as RecheckJson;
  return {
    timestamp: new Date(told.timestamp ?? timestamp),
    decideBy: told.decideBy === undefined ? undefined : new Date(told.decideBy),
  };
}

export function notificationOf({ source, notification }: ClaimedEvent) {
  return source === "webhook" && notification !== null ? JSON.parse(notification) : undefined;
}
