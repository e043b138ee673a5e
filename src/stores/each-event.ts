import type { EventFilter } from "./event-filter.ts";
import type { EventStore } from "./event-store.ts";
import type { StoredEvent } from "./stored-event.ts";

/** The number of events that one call of the store lists. */
export const PAGE = 1000;

/**
 * All events that match, the newest first.
 *
 * @param options - how many events one call lists, and the id of the event behind which the list begins
 */
export async function* eachEvent(
  store: Pick<EventStore<unknown>, "list">,
  filter: EventFilter,
  { page = PAGE, after }: { readonly page?: number; readonly after?: string | undefined } = {},
): AsyncGenerator<StoredEvent> {
  do {
    const found = await store.list({ ...filter, after, limit: page });
    yield* found;
    after = found.length < page ? undefined : found.at(-1)?.eventId;
  } while (after !== undefined);
}
