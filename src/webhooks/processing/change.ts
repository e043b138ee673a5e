// Handles a record that was found: its callback, its new snapshot, and whether it is read again later.

import type { Booking, Listing } from "../../models/records.ts";
import { isOwnId } from "../own-ids.ts";
import { eventType } from "../refs.ts";
import { deadlineOf, requestedAtOf } from "./event-times.ts";
import { knownStayOf, withKnownStay } from "./known-stay.ts";
import { laterLook } from "./rechecks.ts";
import { callbackFailed, compared, type Done, type Failed, type RecordWork } from "./record-work.ts";
import { runCallback } from "./run-callback.ts";

/** Handles a record that was read for a notification, the reconciler or a recheck. */
export async function handleFound<Tx>(
  work: RecordWork<Tx>,
  record: Booking | Listing,
): Promise<Done<Tx> | Failed> {
  const { options, claim, subject } = work;
  const type = eventType(subject.kind, record.status);
  try {
    const look = compared(work, record);
    const { source, replayed } = claim;
    // A reconcile or recheck event of an unchanged record runs no callback: an earlier event has handled the record.
    const onChangeOnly = options.skipUnchanged || source !== "webhook";
    const isAskedFor = replayed || isOwnId("again", claim.eventId);
    const runs = look.changed || isAskedFor || !onChangeOnly;
    const done = await handleLook(work, record, look, runs);
    return { ...done, extra: laterLook(work, record.status, look.changed) };
  } catch (error) {
    return callbackFailed(work, error, type);
  }
}

/**
 * Since when a booking is a request by its other events: those whose callback has failed, and have left no snapshot, and
 * those that an older version handled, which did not keep the time. An event of another status ends the search, because
 * the request before it was another one.
 */
async function toldBefore<Tx>({ options, claim }: RecordWork<Tx>): Promise<number | undefined> {
  const events = (await options.store?.list({ ref: claim.ref!, limit: 100 })) ?? [];
  const isNew = claim.previous !== undefined && claim.previous.status !== "Request";
  const ofOther = events.findIndex(
    ({ type, state, source }) =>
      source !== "timer" && type !== null && (type !== "booking.Request" || (isNew && state === "done")),
  );
  return events
    .slice(0, ofOther === -1 ? events.length : ofOther)
    .filter(({ type }) => type === "booking.Request")
    .reduce<number | undefined>(
      (known, event) => requestedAtOf({ ...event, receivedAt: event.receivedAt.getTime() }, known),
      undefined,
    );
}

/**
 * Runs the callback for a record's status, and makes its snapshot.
 *
 * @param runs - whether the callback runs
 * @throws the error of the callback
 */
export async function handleLook<Tx>(
  work: RecordWork<Tx>,
  record: Booking | Listing,
  look: ReturnType<typeof compared>,
  runs: boolean,
): Promise<Done<Tx>> {
  const { options, claim, context, subject } = work;
  const { changed, changes, previous, snapshot, stay } = look;
  const type = eventType(subject.kind, record.status);
  const isBooking = subject.kind === "booking";
  if (isBooking) options.staySeen(claim, snapshot, stay);
  const before = claim.previous;
  const requestedBefore = before?.status === "Request" ? knownStayOf(before).requestedAt : undefined;
  const requestedAt =
    type === "booking.Request"
      ? requestedAtOf(claim, requestedBefore ?? (await toldBefore(work)))
      : undefined;
  const called = runs
    ? await runCallback(options, claim, context, {
        type,
        status: record.status,
        [subject.kind]: record,
        changed,
        changes,
        previous,
        ...(requestedAt !== undefined && { decideBy: deadlineOf(requestedAt) }),
      })
    : undefined;
  const kept = isBooking
    ? withKnownStay(snapshot, stay, before, called !== undefined, requestedAt)
    : snapshot;
  return { state: "done", type, snapshot: { snapshot: kept, changed }, ...called };
}
