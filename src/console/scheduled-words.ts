// The words for scheduled events, for the command line and the console. Nothing has been tried yet, so they speak of no attempts.

import type { EventFilter } from "../stores/event-filter.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { countOf } from "./flash.ts";

/** Names scheduled events: `1 timer`, or `2 scheduled events` if some of them are second reads of a record. */
export function scheduledWords(count: number, areTimers: boolean): string {
  return countOf(count, areTimers ? "timer" : "scheduled event");
}

/** Says that scheduled events would run early: `Run 2 timers now, before their time`. */
export function runNowWords(count: number, areTimers: boolean): string {
  return `Run ${scheduledWords(count, areTimers)} now, before ${count === 1 ? "its" : "their"} time`;
}

/** Whether a replay would run this event before its time. */
export function isToCome({ state, dueAt }: Pick<StoredEvent, "state" | "dueAt">): boolean {
  return state === "scheduled" && dueAt !== null && dueAt.getTime() > Date.now();
}

export function areTimers(events: readonly Pick<StoredEvent, "source">[]): boolean {
  return events.every(({ source }) => source === "timer");
}

/** Whether all scheduled events that match are timers. */
export async function matchesOnlyTimers(
  store: Pick<EventStore<unknown>, "list">,
  filter: EventFilter,
): Promise<boolean> {
  if (filter.source !== undefined) return filter.source === "timer";
  return (await store.list({ ...filter, state: "scheduled", source: "recheck", limit: 1 })).length === 0;
}
