// The events by which the handler reads a record again by itself.

import { now } from "../../clock.ts";
import type { FurtherEvent } from "../../stores/event-store.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { ownId } from "../own-ids.ts";
import { eventType } from "../refs.ts";
import { decideByOf, type RecheckJson, timestampOf } from "./event-times.ts";
import type { RecordWork } from "./record-work.ts";

/** The wait between the second and the third look at a record, ms. */
const THIRD_LOOK = 15 * 60_000;

/** Returns the event that reads the record again, because the platform may notify before its API shows the change. */
export function laterLook<Tx>(
  { options, claim, subject }: RecordWork<Tx>,
  status: string,
  changed: boolean,
): readonly FurtherEvent[] {
  const { source, replayed, notification } = claim;
  const { recheckAfter = false } = options.queued ?? {};
  if (recheckAfter === false || replayed) return [];
  if (source === "recheck") {
    const { unexplained, ...origin } = JSON.parse(notification ?? "{}") as RecheckJson;
    return unexplained && !changed ? [recheckOf(claim, THIRD_LOOK, origin)] : [];
  }
  if (source !== "webhook" || (changed && !isPassing(subject.kind, status))) return [];
  // The platform documents no notification for a booking that has only been begun.
  const unexplained = !changed || status === "Initiated";
  const [timestamp, decideBy] = [timestampOf(claim).toISOString(), decideByOf(claim)?.toISOString()];
  const origin = { recheckOf: claim.eventId, timestamp, decideBy };
  return [recheckOf(claim, recheckAfter, { ...origin, ...(unexplained && { unexplained }) })];
}

/** Whether a record with this status soon has another one. With Instant Book, the confirmation may be on its way. */
function isPassing(kind: "booking" | "listing", status: string): boolean {
  return ["Request", "Initiated"].includes(status) || eventType(kind, status) === `${kind}.unknown`;
}

/**
 * Returns the event that reads the record again after `wait` ms. Each notification moves the record's recheck, so that the
 * second look comes this long after the last notification.
 */
function recheckOf({ ref, traceparent }: ClaimedEvent, wait: number, origin: RecheckJson): FurtherEvent {
  return {
    event: {
      eventId: ownId("recheck", ref!),
      ref,
      source: "recheck",
      topic: null,
      timestamp: new Date(now() + wait).toISOString(),
      notification: JSON.stringify(origin),
      traceparent,
    },
    dueIn: wait,
    replace: "moved",
  };
}

/** Returns the event that handles a change whose callback failed in all attempts at a timer. It is due now. */
export function recheckNow(claim: ClaimedEvent): FurtherEvent {
  return recheckOf(claim, 0, { servedSince: claim.claimedAt });
}
