// Finds, counts and changes the events that a user is asked about before a replay or a discard.

import type { EventFilter } from "../stores/event-filter.ts";
import { type Change, choosableStates, type EventState } from "../stores/event-states.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { placesOf, touchedBy } from "./causes.ts";
import { countEvents, forEach } from "./event-pages.ts";
import type { Store } from "./inbox-parts.ts";
import { isNarrowed, type Selection, search } from "./selection.ts";

/** The order in which states are counted. Parked events come first, because counting may stop early. */
const countOrder: readonly EventState[] = ["parked", "retrying", "scheduled", "pending", "done"];
/** Counting stops at `COUNT_LIMIT` events of one state, or after `COUNT_TIMEOUT` ms. */
const COUNT_LIMIT = 10_000;
const COUNT_TIMEOUT = 5000;
export const countLimit = () => ({ events: COUNT_LIMIT, endsAt: performance.now() + COUNT_TIMEOUT });
/** The events of a narrowed selection that a change would change. */
export async function changeable(store: Store, change: Change, selection: Selection) {
  const { events, cutAfter } = await search(store, selection);
  const states = choosableStates(change, selection.filter);
  return { events: events.filter(({ state }) => states.includes(state)), cutAfter };
}

/** Changes events one by one, because a store cannot choose events by their error. */
export async function changeEach(
  store: Store,
  change: Change,
  events: readonly StoredEvent[],
): Promise<number> {
  const counts = await forEach(events, ({ eventId, state }) => store[change]({ eventId, state }));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The events that would change. */
export interface Counted {
  readonly byState: ReadonlyMap<EventState, number>;
  readonly total: number;
  /** Whether a limit stopped the count. */
  readonly hasMore: boolean;
  /** The count of each state, in words. */
  readonly lines: readonly string[];
  /** How many of the events were discarded. */
  readonly discarded: number;
  /** The records and accounts of the events, if their errors were searched. */
  readonly places?: string | undefined;
  /** The newest of the events, if they have one cause. */
  readonly example?: StoredEvent | undefined;
  readonly cutAfter?: number | undefined;
}

export async function countChangeable(store: Store, change: Change, selection: Selection): Promise<Counted> {
  if (!isNarrowed(selection)) {
    const { byState, hasMore } = await countByState(store, change, selection.filter);
    const discarded = change === "replay" ? await countDiscarded(store, selection.filter) : 0;
    return countedOf(byState, { hasMore, discarded });
  }
  const { events, cutAfter } = await changeable(store, change, selection);
  const byState = new Map<EventState, number>();
  for (const { state } of events) byState.set(state, (byState.get(state) ?? 0) + 1);
  return countedOf(byState, {
    cutAfter,
    places: events.length > 0 ? placesOf(touchedBy(events)) : undefined,
    example: selection.cause === undefined ? undefined : events[0],
  });
}

function countedOf(byState: ReadonlyMap<EventState, number>, more: Partial<Counted>): Counted {
  const counts = [...byState].filter(([, count]) => count > 0);
  const discarded = more.discarded ?? 0;
  const lines = counts.map(
    ([state, count]) =>
      `${count.toLocaleString("en-US")} ${state}${state === "done" && discarded > 0 ? `, ${discarded.toLocaleString("en-US")} of them discarded` : ""}`,
  );
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  return { hasMore: false, ...more, byState, total, lines, discarded };
}

/** Counts the events that would change, by state. `hasMore` is true if a limit stopped the count. */
async function countByState(
  store: Store,
  change: Change,
  filter: EventFilter,
): Promise<{ byState: Map<EventState, number>; hasMore: boolean }> {
  const wanted = countOrder.filter(
    (state) => choosableStates(change, filter).includes(state) && (filter.state ?? state) === state,
  );
  const limit = countLimit();
  const byState = new Map<EventState, number>();
  for (const state of wanted) {
    const { total, hasMore } = await countEvents(store, { ...filter, state }, limit);
    byState.set(state, total);
    if (hasMore) return { byState, hasMore };
  }
  return { byState, hasMore: false };
}

/** Counts the discarded events that a replay of a filter would bring back. */
async function countDiscarded(store: Store, filter: EventFilter): Promise<number> {
  if ((filter.state ?? "done") !== "done" || (filter.reason ?? "discarded") !== "discarded") return 0;
  return (await countEvents(store, { ...filter, state: "done", reason: "discarded" }, countLimit())).total;
}

/** Whether somebody has discarded events of a filter since the page that asks for confirmation was opened. */
export async function hasNewDiscards(
  store: Store,
  filter: EventFilter,
  form: URLSearchParams,
): Promise<boolean> {
  const before = form.get("discarded");
  return before !== null && (await countDiscarded(store, filter)) > Number(before);
}
