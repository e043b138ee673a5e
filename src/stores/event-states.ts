/**
 * The state of an event.
 *
 * A new event is `pending`, or `scheduled` if it is due later. A claim makes it `processing`, and a successful attempt makes it `done`. A failed attempt
 * makes it `retrying`, until the next claim. If the queue stops retrying an event, the event is `parked` until someone
 * replays or discards it.
 */
export type EventState = "scheduled" | "pending" | "processing" | "retrying" | "done" | "parked";

/** Why an attempt failed. */
export type FailureReason = "callback" | "invalid-record" | "not-found" | "denied" | "unavailable";

/**
 * The origin of an event: a notification, the reconciler, a recheck, a timer or a thing. A recheck reads a record a second
 * time. A timer runs a callback at the time that an earlier callback set. A thing is what should exist for a stay.
 */
export type EventOrigin = "webhook" | "reconcile" | "recheck" | "timer" | "thing";

export const eventStates: readonly EventState[] = [
  "scheduled",
  "pending",
  "processing",
  "retrying",
  "done",
  "parked",
];

/** The counts of a store without events. */
export const noEvents: Readonly<Record<EventState, number>> = {
  scheduled: 0,
  pending: 0,
  processing: 0,
  retrying: 0,
  done: 0,
  parked: 0,
};

export const failureReasons: readonly FailureReason[] = [
  "callback",
  "invalid-record",
  "not-found",
  "denied",
  "unavailable",
];

export const eventReasons: readonly (FailureReason | "discarded")[] = [...failureReasons, "discarded"];

export const eventOrigins: readonly EventOrigin[] = ["webhook", "reconcile", "recheck", "timer", "thing"];

/** A change that a store makes to all events that match a filter. */
export type Change = "replay" | "discard";

const changedFrom: Readonly<Record<Change, readonly EventState[]>> = {
  replay: ["pending", "retrying", "done", "parked"],
  discard: ["pending", "retrying", "parked"],
};

/**
 * Returns the states from which a change with this filter is possible. A filter must name scheduled events, so that
 * `replay({ ref })` does not fire the record's timers.
 */
export function statesOf(
  change: Change,
  { state, eventId }: { readonly state?: EventState | undefined; readonly eventId?: string | undefined },
): readonly EventState[] {
  const states = changedFrom[change];
  return state === "scheduled" || eventId !== undefined ? [...states, "scheduled"] : states;
}

/**
 * Returns the states that a person may choose for a change. Leaves out pending events for `replay`: most of them are due
 * already, so they would not change.
 */
export function choosableStates(
  change: Change,
  filter: { readonly state?: EventState | undefined; readonly eventId?: string | undefined },
): readonly EventState[] {
  return statesOf(change, filter).filter((state) => change === "discard" || state !== "pending");
}
