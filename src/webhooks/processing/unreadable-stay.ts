import type { Log } from "../../logger.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { stayBefore } from "../stay-change.ts";
import { endsStay, knownStayOf, type StayFields, stayOf } from "./known-stay.ts";

/** The number of states that the handler remembers. */
const MOST = 1000;

/** Tells what was read of a booking whose stay may be unreadable. */
export type StaySeen = (
  claim: Pick<ClaimedEvent, "ref" | "previous">,
  snapshot: Snapshot,
  stay: StayFields,
) => void;

/** Makes a function that warns, once for each booking and state, that an old stay holds because the new one is unreadable. */
export function unreadableStays(log: Log): StaySeen {
  const told = new Set<string>();
  return ({ ref, previous }, { status }, stay) => {
    const problem = previous && !endsStay(status) ? problemOf(stay) : undefined;
    const old = previous && problem !== undefined && stayBefore(ref!, knownStayOf(previous));
    if (!old) return;
    const key = JSON.stringify([ref, status, stay]);
    if (told.has(key)) return;
    told.delete(told.size >= MOST ? told.values().next().value! : "");
    told.add(key);
    log.warn(
      `the stay of ${ref} cannot be read: ${problem}${/[?.]$/.test(problem!) ? "" : "."} The stay from ${old.checkIn} to ${old.checkOut} at listing ${old.listingId} still holds`,
      { ref },
    );
  };
}

function problemOf(stay: StayFields): string | undefined {
  try {
    stayOf(stay);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
