// Warnings of what was read: a status that this version does not know, and a stay that cannot be read.

import type { Log } from "../../logger.ts";
import { eventType, type Subject } from "../refs.ts";
import type { EventStays } from "../stay-change.ts";
import { callbackFor } from "../timer-rules.ts";
import type { Look } from "./snapshots.ts";

/** The number of statuses that the handler remembers. A platform that sends random ones must not fill the log. */
const MOST_STATUSES = 100;
/** The number of characters of a status that the line shows. */
const SHOWN = 100;

/** Tells that a record has this status. */
export type StatusSeen = (kind: Subject["kind"], status: string, ref: string | null) => void;

/** Makes a function that warns once about each status that has no event type. */
export function unknownStatuses(on: object, log: Log): StatusSeen {
  const told = new Set<string>();
  return (kind, status, ref) => {
    const type = eventType(kind, status);
    const shown = status.slice(0, SHOWN);
    const key = `${kind} ${shown}`;
    if (type !== `${kind}.unknown`) return;
    if (told.has(key) || told.size >= MOST_STATUSES) return;
    told.add(key);
    const advice = callbackFor(on, type)
      ? `${kind === "booking" ? "It neither begins nor ends a stay. " : ""}If you know what it means, say so in the callback ${type}`
      : `No callback handles it. Add ${type}, or ${kind} for all events of a ${kind}`;
    log.warn(`the platform sent the status \`${shown}\`, which this version does not know. ${advice}`, {
      ref,
    });
  };
}

/** The number of states that the handler remembers. */
const MOST_STAYS = 1000;

/** Tells what was read of a booking whose stay may be unreadable. */
export type StaySeen = (ref: string, look: Pick<Look, "snapshot" | "base">, stays: EventStays) => void;

/** Makes a function that warns, once for each booking and state, that an old stay holds because the new one is unreadable. */
export function unreadableStays(log: Log): StaySeen {
  const told = new Set<string>();
  return (ref, { snapshot, base }, { from, problem }) => {
    if (!from || !problem) return;
    const key = JSON.stringify([ref, snapshot.status, base]);
    if (told.has(key)) return;
    told.delete(told.size >= MOST_STAYS ? told.values().next().value! : "");
    told.add(key);
    const { message } = problem;
    log.warn(
      `the stay of ${ref} cannot be read: ${message}${/[?.]$/.test(message) ? "" : "."} The stay from ${from.checkIn} to ${from.checkOut} at listing ${from.listingId} still holds`,
      { ref },
    );
  };
}
