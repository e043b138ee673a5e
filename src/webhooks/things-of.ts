// Reads the things of a booking from a store.

import { now } from "../clock.ts";
import { type ThingStatus, thingsIn } from "../stays/things.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";

/** Returns the things of a booking: what exists for its stay, what is to come, and what has run. */
export async function thingsOf(
  store: Pick<EventStore<unknown>, "ledgerOf" | "list">,
  ref: string,
): Promise<ThingStatus[]> {
  const ledger = await store.ledgerOf(ref);
  if (ledger === undefined) return [];
  const events: StoredEvent[] = [];
  for await (const event of eachEvent(store, { ref, source: "thing" })) events.push(event);
  return thingsIn(ledger, events, now());
}
