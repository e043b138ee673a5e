// Reads the things of a booking from a store.

import { now } from "../clock.ts";
import { InvalidArgumentError } from "../errors.ts";
import { type ThingStatus, thingsIn } from "../stays/things.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { parseRef } from "./refs.ts";

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

/** @throws InvalidArgumentError if `ref` is no booking of this handler */
export function checkedBooking(ref: unknown, hasAccounts: boolean): string {
  const subject = typeof ref === "string" ? parseRef(ref) : undefined;
  if (subject?.kind === "booking" && (subject.account !== undefined) === hasAccounts) return ref as string;
  const form = hasAccounts ? "<account>/booking:<code>" : "booking:<code>";
  throw new InvalidArgumentError({ path: ["ref"], message: `must be ${form}` });
}
