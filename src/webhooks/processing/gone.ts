// A record that the handler knew, and that the platform no longer returns.

import { GONE } from "../../models/statuses.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import type { Subject } from "../refs.ts";
import { knownStayOf, withKnownStay } from "./known-stay.ts";
import { type Comparison, compare } from "./record.ts";

/** Whether the last handled event of the record was that it is gone. */
export function isGone(snapshot: Snapshot | undefined): boolean {
  return snapshot?.status === GONE;
}

/** What an event of a gone record tells, and the snapshot that it leaves. */
export interface GoneRecord extends Comparison {
  /** The record as the user's side knew it. */
  readonly record: object;
  readonly snapshot: Snapshot;
}

/** @param previous - the record's last snapshot, which may say itself that the record is gone */
export function goneRecordOf(subject: Subject, previous: Snapshot): GoneRecord {
  const { kind, account, ...identity } = subject;
  const snapshot: Snapshot = { status: GONE, fields: previous.fields };
  return {
    record: { ...previous.fields, ...identity, status: GONE },
    snapshot: kind === "booking" ? withKnownStay(snapshot, stayOf(previous), previous, true) : snapshot,
    ...compare(previous, { snapshot, tracked: Object.keys(previous.fields) }),
  };
}

/** The stay that the user's side knew stays known, so that nothing is lost if the record comes back. */
function stayOf(previous: Snapshot) {
  const { checkIn, checkOut, listingId } = knownStayOf(previous);
  return { checkIn, checkOut, listingId };
}
