import type { EventFilter } from "../stores/event-filter.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";

type Store = Pick<EventStore<unknown>, "list" | "counts">;

/** The number of events that one call of the store lists. */
const PAGE = 1000;

/** All events that match, the newest first. */
export async function* eachEvent(
  store: Store,
  filter: EventFilter,
  page = PAGE,
): AsyncGenerator<StoredEvent> {
  let after: string | undefined;
  do {
    const found = await store.list({ ...filter, after, limit: page });
    yield* found;
    after = found.length < page ? undefined : found.at(-1)?.eventId;
  } while (after !== undefined);
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
  for await (const _event of eachEvent(store, filter, limit ? PAGE / 2 : PAGE)) {
    if (limit && total >= limit.events) return { total, hasMore: true };
    total += 1;
    if (limit && total % (PAGE / 2) === 0 && performance.now() > limit.endsAt)
      return { total, hasMore: true };
  }
  return { total, hasMore: false };
}
