/**
 * The state of an event.
 *
 * A new event is `pending`. A claim makes it `processing`, and a successful attempt makes it `done`. A failed attempt
 * makes it `retrying`, until the next claim. If the queue stops retrying an event, the event is `parked` until someone
 * replays or discards it.
 */
export type EventState = "pending" | "processing" | "retrying" | "done" | "parked";

/** Why an attempt failed. */
export type FailureReason = "callback" | "invalid-record" | "not-found" | "denied" | "unavailable";

/** The origin of an event: a notification, the reconciler or a recheck. A recheck reads a record a second time. */
export type EventOrigin = "webhook" | "reconcile" | "recheck";

export const eventStates: readonly EventState[] = ["pending", "processing", "retrying", "done", "parked"];

export const failureReasons: readonly FailureReason[] = [
  "callback",
  "invalid-record",
  "not-found",
  "denied",
  "unavailable",
];

export const eventReasons: readonly (FailureReason | "discarded")[] = [...failureReasons, "discarded"];

export const eventOrigins: readonly EventOrigin[] = ["webhook", "reconcile", "recheck"];

/** A change that a store makes to all events that match a filter. */
export type Change = "replay" | "discard";

/** The states from which each change is possible. A change skips events in other states. */
export const changedFrom: Readonly<Record<Change, readonly EventState[]>> = {
  replay: ["done", "parked", "retrying"],
  discard: ["pending", "retrying", "parked"],
};
