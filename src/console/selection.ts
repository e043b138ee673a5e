// The events that a page is about: the filter of the store, and what the page asks of each event itself.

import { eachEvent } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { causeOf } from "./cause-key.ts";

export interface Selection {
  readonly filter: EventFilter;
  /** A text that the error of the last attempt contains, in upper or lower case. */
  readonly error?: string | undefined;
  /** The key of a cause, of parked events only. */
  readonly cause?: string | undefined;
}

/** Whether the store alone cannot choose the events, because it does not search errors. */
export function isNarrowed({ error, cause }: Selection): boolean {
  return error !== undefined || cause !== undefined;
}

export function isEmpty(selection: Selection): boolean {
  return Object.values(selection.filter).every((value) => value === undefined) && !isNarrowed(selection);
}

/** A search reads at most this many events, or as many as it can in this time, ms. */
const MOST_SEARCHED = 10_000;
const SEARCH_TIMEOUT = 5000;
/** How many events one call lists. For each call, a database sorts all events of the filter, so small pages cost more. */
const SEARCH_PAGE = 2500;

/** The events that a search found, the newest first. */
export interface Found {
  readonly events: readonly StoredEvent[];
  /** The id of the event behind which the next page begins. `undefined` if there is none. */
  readonly next: string | undefined;
  /** How many events the search has read, if a limit stopped it. Older ones may match, too. */
  readonly cutAfter: number | undefined;
}

interface SearchOptions {
  /** The largest number of events to find. Default: all in the events that a search reads. */
  readonly limit?: number;
  /** The event behind which the search begins. */
  readonly after?: string | undefined;
  /** The largest number of events to read. */
  readonly most?: number;
}

/** Finds the events of a selection. */
export function search(
  store: Pick<EventStore<unknown>, "list">,
  selection: Selection,
  options: SearchOptions = {},
): Promise<Found> {
  return searchFor(store, selection.filter, matcherOf(selection), options);
}

/** Finds events in what the store lists, slice by slice. */
export async function searchFor(
  store: Pick<EventStore<unknown>, "list">,
  filter: EventFilter,
  isMatch: (event: StoredEvent) => boolean,
  { limit = Number.POSITIVE_INFINITY, after, most = MOST_SEARCHED }: SearchOptions = {},
): Promise<Found> {
  const endsAt = performance.now() + SEARCH_TIMEOUT;
  const events: StoredEvent[] = [];
  let read = 0;
  let last: string | undefined;
  for await (const event of eachEvent(store, filter, { page: Math.min(SEARCH_PAGE, most + 1), after })) {
    const isFull = events.length >= limit && isMatch(event);
    if (isFull) return { events, next: last, cutAfter: undefined };
    if (read >= most || performance.now() > endsAt) return { events, next: last, cutAfter: read };
    if (isMatch(event)) events.push(event);
    last = event.eventId;
    read += 1;
  }
  return { events, next: undefined, cutAfter: undefined };
}

function matcherOf({ error, cause }: Selection): (event: StoredEvent) => boolean {
  const wanted = error?.toLowerCase();
  return (event) =>
    (wanted === undefined || (event.history.at(-1)?.error ?? "").toLowerCase().includes(wanted)) &&
    (cause === undefined || causeOf(event) === cause);
}
