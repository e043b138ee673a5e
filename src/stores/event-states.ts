/**
 * The state of an event.
 *
 * A recorded event is `pending`. A claim makes it `processing`, and a successful attempt makes it `done`. A failed
 * attempt makes it `retrying`, until the next claim. The queue gives up an event by making it `parked`, until it is
 * replayed or discarded.
 */
export type EventState = "pending" | "processing" | "retrying" | "done" | "parked";

/** Why an attempt failed. */
export type FailureReason = "callback" | "invalid-record" | "not-found" | "denied" | "unavailable";

/** The origin of an event: the platform, the reconciler, or a second read of a record that had not changed yet. */
export type EventOrigin = "webhook" | "reconcile" | "recheck";

/** All states of an event. */
export const eventStates: readonly EventState[] = ["pending", "processing", "retrying", "done", "parked"];

/** All reasons of a failed attempt. */
export const failureReasons: readonly FailureReason[] = [
  "callback",
  "invalid-record",
  "not-found",
  "denied",
  "unavailable",
];

/** All reasons of an event. */
export const eventReasons: readonly (FailureReason | "discarded")[] = [...failureReasons, "discarded"];

/** All places where an event can come from. */
export const eventOrigins: readonly EventOrigin[] = ["webhook", "reconcile", "recheck"];

/** The changes that a store makes to all events that match a filter. */
export type Change = "replay" | "discard";

/** The states whose events each change takes. It skips events in other states. */
export const changedFrom: Readonly<Record<Change, readonly EventState[]>> = {
  replay: ["done", "parked", "retrying"],
  discard: ["pending", "retrying", "parked"],
};
