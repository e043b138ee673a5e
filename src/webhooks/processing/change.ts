// Handles a record that was found: its callback, its new snapshot, and whether it is read again later.

import type { Booking } from "../../models/records.ts";
import { isOwnId } from "../own-ids.ts";
import { eventType } from "../refs.ts";
import { type EventStays, staysOf } from "../stay-change.ts";
import { deadlineOf, requestedAtOf } from "./event-times.ts";
import { knownOf, withKnown } from "./known-stay.ts";
import { laterLook } from "./rechecks.ts";
import { compare, hiddenIn, keeping } from "./record.ts";
import { callbackFailed, type Done, type Ended, type RecordWork } from "./record-work.ts";
import { runCallback } from "./run-callback.ts";
import type { Look } from "./snapshots.ts";

/** Handles a record that was read for a notification, the reconciler or a recheck. */
export async function handleFound<Tx>(work: RecordWork<Tx>, look: Look): Promise<Ended<Tx>> {
  const { claim, subject } = work;
  const { status } = look.record;
  try {
    const { changed } = compare(claim.previous, look);
    const { source, replayed } = claim;
    // A reconcile or recheck event of an unchanged record runs no callback: an earlier event has handled the record.
    const onChangeOnly = source !== "webhook";
    const isAgain = isOwnId("again", claim.eventId) || isOwnId("again-known", claim.eventId);
    const runs = changed || replayed || isAgain || !onChangeOnly;
    const done = await handleLook(work, look, runs);
    return { ...done, extra: laterLook(work, status, changed) };
  } catch (error) {
    return callbackFailed(work, error, eventType(subject.kind, status));
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
export async function handleLook<Tx>(work: RecordWork<Tx>, look: Look, runs: boolean): Promise<Done<Tx>> {
  const { options, claim, context, subject } = work;
  const { record } = look;
  const type = eventType(subject.kind, record.status);
  const before = claim.previous && knownOf(claim.previous);
  const compared = compare(claim.previous, look);
  const stays = staysIn(work, look);
  if (stays) options.staySeen(claim.ref!, look, stays);
  const requestedAt =
    type === "booking.Request"
      ? requestedAtOf(claim, before?.requestedAt ?? (await toldBefore(work)))
      : undefined;
  const fields = {
    type,
    status: record.status,
    [subject.kind]: record,
    ...compared,
    ...(requestedAt !== undefined && { decideBy: deadlineOf(requestedAt) }),
  };
  const called = runs ? await runCallback(options, claim, context, fields, stays) : undefined;
  // A callback that did not run has changed nothing at the user's side.
  const { stay, handled } =
    before?.handled && !called ? before : { stay: stays?.to, handled: !stays || called !== undefined };
  const known = { stay, handled, requestedAt, read: hiddenIn(look) };
  const snapshot = withKnown(keeping(claim.previous, look), known);
  return { state: "done", type, snapshot: { snapshot, changed: compared.changed }, ...called };
}

/** Returns what an event tells of the stay of a booking. `undefined` for a listing. */
export function staysIn<Tx>({ options, claim, subject }: RecordWork<Tx>, look: Look): EventStays | undefined {
  if (subject.kind !== "booking") return undefined;
  const { bookingCode, status } = look.record as Booking;
  const { base: fields, timeZone, zoneProblem } = look;
  const known = claim.previous && knownOf(claim.previous).stay;
  const stays = staysOf({ bookingCode, status, fields, timeZone }, known, options.holds);
  // Days that nobody knows without a zone are not absent.
  return stays.problem && zoneProblem ? { ...stays, problem: zoneProblem as Error } : stays;
}
