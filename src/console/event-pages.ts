import { refsAbout } from "../account.ts";
import { eachEvent, PAGE } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";

type Store = Pick<EventStore<unknown>, "list" | "counts">;

/** How many calls of the store run at once. */
const AT_ONCE = 20;

/** Calls a function for each item, some at once. Resolves to the results, or to the first of them if the signal aborts. */
export async function forEach<T, R>(
  items: readonly T[],
  call: (item: T) => Promise<R>,
  signal?: AbortSignal,
): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length && !signal?.aborted; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(call))));
  return results;
}

/** Reads the events with these ids, as {@link forEach} does. Leaves out those that are not there any more. */
export async function readEvents(
  store: Pick<EventStore<unknown>, "get">,
  ids: readonly string[],
  signal?: AbortSignal,
): Promise<StoredEvent[]> {
  const events = await forEach(ids, (eventId) => store.get(eventId), signal);
  return events.filter((event) => event !== undefined);
}

/** The time at which the last attempt at an event ended, ms since 1970. 0 if none has. */
export const lastAttempt = ({ history }: StoredEvent): number => history.at(-1)?.at.getTime() ?? 0;

/** The events that are due first, as {@link soonest} found them. */
export interface Soonest {
  /** The event that is due first comes first. */
  readonly events: readonly StoredEvent[];
  /** How many events match. */
  readonly total: number;
  /** Whether a limit stopped the reading. The store lists the newest events first, so older ones were not read. */
  readonly hasMore: boolean;
}

/** Finds the matching events that are due first. Reads all of them in pages, because a store has no list by due time. */
export async function soonest(
  store: Store,
  filter: EventFilter,
  most: number,
  limit: CountLimit,
): Promise<Soonest> {
  let kept: StoredEvent[] = [];
  let total = 0;
  let hasMore = false;
  for await (const event of eachEvent(store, filter)) {
    if (total >= limit.events || (total % PAGE === 0 && performance.now() > limit.endsAt)) {
      hasMore = true;
      break;
    }
    total += 1;
    kept.push(event);
    if (kept.length >= 2 * most) kept = byDueTime(kept).slice(0, most);
  }
  return { events: byDueTime(kept).slice(0, most), total, hasMore };
}

function byDueTime(events: readonly StoredEvent[]): StoredEvent[] {
  return [...events].sort((one, other) => Number(one.dueAt) - Number(other.dueAt));
}

/** Where a count stops: at a number of events, or at a time by `performance.now()`. */
export interface CountLimit {
  readonly events: number;
  readonly endsAt: number;
}

/**
 * Counts the events that match. Without a limit, counts all of them.
 *
 * @returns the count, and in `hasMore` whether the limit stopped it
 */
export async function countEvents(
  store: Store,
  filter: EventFilter,
  limit?: CountLimit,
): Promise<{ readonly total: number; readonly hasMore: boolean }> {
  const { state, ...others } = filter;
  if (state !== undefined && Object.values(others).every((value) => value === undefined))
    return { total: (await store.counts())[state], hasMore: false };
  let total = 0;
  // Pages of a count with a limit are smaller, so that the limit of time is kept on a slow store.
  for await (const _event of eachEvent(store, filter, { page: limit ? PAGE / 2 : PAGE })) {
    if (limit && total >= limit.events) return { total, hasMore: true };
    total += 1;
    if (limit && total % (PAGE / 2) === 0 && performance.now() > limit.endsAt)
      return { total, hasMore: true };
  }
  return { total, hasMore: false };
}

/** Counts the events of a record, for a booking with its messages, as {@link countEvents} does. */
export async function countEventsAbout(store: Store, ref: string, limit?: CountLimit) {
  const counts = await forEach(refsAbout(ref), (each) => countEvents(store, { ref: each }, limit));
  return {
    total: counts.reduce((sum, { total }) => sum + total, 0),
    hasMore: counts.some(({ hasMore }) => hasMore),
  };
}
