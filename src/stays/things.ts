// What exists for a stay, and what is to come, as `webhooks.things`, the console and the command line show it.

import { splitKey } from "../account.ts";
import type { BookingStay } from "../models/booking-stay.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { type Entry, type Json, type Ledger, readLedger, stayOfEntry } from "./ledger.ts";
import { nextOf } from "./rules.ts";

/** A thing of a booking, as `webhooks.things` shows it. */
export type ThingStatus = {
  /** The name that `want` gave it. */
  readonly name: string;
  /** The house that it is at. */
  readonly listingId: number;
  /** The stay that it is for. */
  readonly stay: BookingStay;
  /**
   * `planned`: its time is to come. `due`: it acts now. `failing`: its last attempt failed, and it is tried again or parked.
   * `on`: the hold exists. `done`: the once has run.
   */
  readonly state: "planned" | "due" | "failing" | "on" | "done";
  /** When it acts next. In the states `on` and `done`: since when. */
  readonly at: Date;
  /** What `begin` of a hold last returned. It may be a door code. */
  readonly value: Json | undefined;
  /** The error of the last attempt, in the state `failing`. */
  readonly error: string | undefined;
};

/**
 * Returns the things of a booking: those that act next, and those that have run.
 *
 * @param events - the events of its things
 * @param now - epoch ms
 */
export function thingsIn(
  ledger: string | undefined,
  events: readonly StoredEvent[],
  now: number,
): ThingStatus[] {
  const known = readLedger(ledger);
  if (!known) return [];
  const rows = new Map(events.map((event) => [splitKey(event.eventId).rest, event]));
  const waiting = known.entries.flatMap((entry) => statusOf(entry, rows, Math.max(now, known.at)));
  return [...waiting, ...Object.entries(known.done).map(([name, done]) => doneStatus(name, done))];
}

/** Names the holds that have begun, or may have: `door-code at listing 7`. To delete their ledger ends none of them. */
export function onIn(ledger: string | undefined): string[] {
  const entries = readLedger(ledger)?.entries ?? [];
  return entries
    .filter((entry) => entry.kind === "hold" && entry.was !== undefined)
    .map((entry) => `${entry.name} at listing ${stayOfEntry(entry).listingId}`);
}

function statusOf(entry: Entry, rows: ReadonlyMap<string, StoredEvent>, now: number): ThingStatus[] {
  const { name, row } = entry;
  const event = row && rows.get(row.eventId);
  const next = nextOf(entry, now);
  if (entry.isDropped || event?.reason === "discarded") return [];
  const stay = stayOfEntry(entry);
  const value = entry.kind === "hold" ? entry.value : undefined;
  const base = { name, listingId: stay.listingId, stay, value, error: undefined };
  const error = event && event.state !== "done" ? event.history.at(-1)?.error : undefined;
  if (error !== undefined) {
    const at = event?.dueAt ?? event?.history.at(-1)?.at ?? new Date(now);
    return [{ ...base, state: "failing", at, error }];
  }
  if (next && next.at <= now) return [{ ...base, state: "due", at: new Date(row?.at ?? now) }];
  if (entry.kind === "hold" && entry.since !== undefined)
    return [{ ...base, state: "on", at: new Date(entry.since) }];
  return next ? [{ ...base, state: "planned", at: new Date(next.at) }] : [];
}

function doneStatus(name: string, { stay, since }: Ledger["done"][string]): ThingStatus {
  const at = new Date(since);
  return { name, listingId: stay.listingId, stay, state: "done", at, value: undefined, error: undefined };
}
