// The events of things in the store: what they hold, and their types.

import type { FurtherEvent } from "../stores/event-store.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "../stores/stored-event.ts";
import type { Fact } from "./rules.ts";

/** What an event of the source `thing` is for. */
export interface ThingOrigin {
  /** The name of the thing. It is absent if the event plans anew, or forgets the booking. */
  readonly name?: string | undefined;
  readonly listingId?: number | undefined;
  /** Whether the event forgets the booking, 30 days after its last check-out. */
  readonly forgets?: true | undefined;
  /** If the event was due when it was recorded: the claim time of that attempt, so that a read since then serves it. */
  readonly servedSince?: number | undefined;
}

const TYPE = "booking.thing";

export function originOf({ notification }: Pick<NewEvent, "notification">): ThingOrigin {
  return JSON.parse(notification ?? "{}") as ThingOrigin;
}

/** Returns the type of an event of the source `thing`, such as `booking.thing.door-code`. */
export function thingType(event: Pick<NewEvent, "notification">): string {
  const { name } = originOf(event);
  return name === undefined ? TYPE : `${TYPE}.${name}`;
}

/**
 * Returns an event of the source `thing`. One that is due comes before the event that made the plan: a callback that hangs
 * must not hold it up.
 *
 * @param dueAt - epoch ms
 * @param waited - for how long an event has been due that comes after this one, ms
 */
export function thingEvent(
  { ref, traceparent, claimedAt }: ClaimedEvent,
  eventId: string,
  origin: ThingOrigin,
  {
    dueAt,
    now,
    waited,
  }: {
    readonly dueAt: number;
    readonly now: number;
    readonly waited?: number | undefined;
  },
): FurtherEvent {
  const event: NewEvent = {
    eventId,
    ref,
    source: "thing",
    topic: null,
    timestamp: new Date(dueAt).toISOString(),
    notification: JSON.stringify(dueAt <= now ? { ...origin, servedSince: claimedAt } : origin),
    traceparent,
  };
  return dueAt > now ? { event, dueAt: new Date(dueAt) } : { event, ...ahead(waited) };
}

/** How long a plan may take to be recorded, ms, so that its events come before those that have waited for longer. */
const MARGIN = 60_000;

/** @param waited - for how long an event has been due that comes after this one, ms */
function ahead(waited?: number): { readonly dueIn: number } {
  return { dueIn: waited === undefined ? -1 : -waited - MARGIN };
}

/** Returns the event of a thing that was parked as one to record again, due now. */
export function triedAgain(event: NewEvent, waited: number | undefined): FurtherEvent {
  return sameAgain(event, ahead(waited));
}

/** Returns an event of a claim or a list as one to record again, in the place of the one that has ended. */
function sameAgain(
  event: NewEvent,
  due: { readonly dueAt: Date } | { readonly dueIn: number },
): FurtherEvent {
  const { eventId, ref, source, topic, timestamp, notification, traceparent } = event;
  return {
    event: { eventId, ref, source, topic, timestamp, notification, traceparent },
    ...due,
    replace: "ended",
  };
}

/** Returns the event of a thing as one to record again, at the time of its act. */
export function laterAgain(event: NewEvent, at: number): FurtherEvent {
  return sameAgain(event, { dueAt: new Date(at) });
}

/** The shortest and the longest wait of an event whose thing the app does not know, ms. Another version may know it. */
const [LEAST_WAIT, MOST_WAIT] = [5 * 60_000, 24 * 60 * 60_000];

/** Returns an event whose thing the app does not know as one to record again, with a wait that doubles. */
export function leftAlone(event: NewEvent, now: number): FurtherEvent {
  const waited = now - Date.parse(event.timestamp);
  return sameAgain(event, { dueIn: Math.min(Math.max(waited, LEAST_WAIT), MOST_WAIT) });
}

/** Returns for how long the event of an attempt has been due, ms. */
export function waitedOf({ claimedAt, dueAt }: ClaimedEvent): number {
  return claimedAt - dueAt.getTime();
}

/** Says what became of the events of a plan before. */
export function factsOf(rows: ReadonlyMap<string, StoredEvent | undefined>): Map<string, Fact> {
  return new Map(
    [...rows].map(([eventId, row]) => {
      const isDropped = row === undefined || row.reason === "discarded";
      return [eventId, { isDropped, isLost: !isDropped && isLost(row) }];
    }),
  );
}

/** Whether an event waits that no attempt has failed at. */
export function isUntried(row: StoredEvent | undefined): row is StoredEvent {
  const waits = row !== undefined && row.state !== "done" && row.state !== "parked";
  return waits && row.attempts === 0 && row.history.every(({ outcome }) => outcome === "done");
}

/**
 * Whether a process ended during an attempt at an event. Failed reads may have pushed that attempt out of the history, but
 * they do not count as attempts.
 */
function isLost({ attempts, state, history }: StoredEvent): boolean {
  if (history.some(({ outcome }) => outcome === "lost")) return true;
  const failed = history.filter(({ reason }) => reason === "callback" || reason === "invalid-record").length;
  return failed < history.length && failed < attempts - Number(state === "processing");
}
