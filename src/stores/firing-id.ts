// The ids of timers. A store keeps one row for each timer, so that a time that is set again moves the timer. Outside of
// the store, each time that was set is an event with an id of its own.

import { splitKey } from "../account.ts";

const TIMER = "stayhook:timer:";
const TIME = /:((?:[+-]\d\d)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/;

interface Named {
  readonly eventId: string;
  readonly timestamp: string;
}

/** Returns the id of one firing of a timer: the id of the timer and the time that was set. Other ids stay as they are. */
export function firingId({ eventId, timestamp }: Named): string {
  return isTimerId(eventId) && !TIME.test(eventId) ? `${eventId}:${timeSet(timestamp)}` : eventId;
}

function isTimerId(eventId: string): boolean {
  return splitKey(eventId).rest.startsWith(TIMER);
}

/**
 * Returns the timestamp of a timer that has fired and that its own callback has cleared: the same ms, one µs later. The
 * event stays visible as done. But because its timestamp differs, the same time can be set again.
 */
export function clearedTime(timestamp: string): string {
  return timestamp.replace(/(\.\d{3})Z$/, "$1001Z");
}

function timeSet(timestamp: string): string {
  return timestamp.replace(/(\.\d{3})001Z$/, "$1Z");
}

/** Whether the row of a timer has the time of this firing. */
export function isFiring(row: { readonly timestamp: string }, timestamp: string | undefined): boolean {
  return timestamp === undefined || timeSet(row.timestamp) === timestamp;
}

/** Returns the event with the id of its firing. */
export function withFiringId<T extends Named>(event: T): T {
  const eventId = firingId(event);
  return eventId === event.eventId ? event : { ...event, eventId };
}

/** The id of an event's row, and the time that the row must have if the id was that of one firing. */
export interface RowId {
  readonly eventId: string;
  readonly timestamp: string | undefined;
}

/** Splits the id of a firing into the id of its timer and the time. The id of a timer alone means any time. */
export function rowIdOf(given: string): RowId {
  const timestamp = isTimerId(String(given)) ? TIME.exec(given)?.[1] : undefined;
  const eventId = timestamp === undefined ? given : given.slice(0, -timestamp.length - 1);
  return { eventId, timestamp };
}

/** Returns the event or claim with the id of its row. */
export function withRowId<T extends { readonly eventId: string }>(event: T): T {
  const { eventId } = rowIdOf(event.eventId);
  return eventId === event.eventId ? event : { ...event, eventId };
}
