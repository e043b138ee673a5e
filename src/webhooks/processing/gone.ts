// A record that the handler knew, and that the platform no longer returns.

import { GONE } from "../../models/statuses.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import type { Subject } from "../refs.ts";
import { knownOf, withKnown } from "./known-stay.ts";
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
export function goneRecordOf({ account: _, kind: __, ...identity }: Subject, previous: Snapshot): GoneRecord {
  const snapshot: Snapshot = { status: GONE, fields: previous.fields };
  return {
    record: { ...previous.fields, ...identity, status: GONE },
    snapshot: withKnown(snapshot, { handled: true, read: knownOf(previous).read }),
    ...compare(previous, { snapshot, base: {} }),
  };
}
