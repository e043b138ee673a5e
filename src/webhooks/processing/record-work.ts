// One attempt at an event that refers to a record: what its steps share.

import type { Booking, Listing } from "../../models/records.ts";
import type { Policy, WorkContext, WorkResult } from "../../queue/work.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import type { Subject } from "../refs.ts";
import type { GoneWitness } from "./gone-witness.ts";
import type { StatusSeen, StaySeen } from "./read-warnings.ts";
import {
  type Comparison,
  compare,
  type RecentAnswers,
  type SnapshotOf,
  type TrackedSnapshot,
} from "./record.ts";
import type { Refusals } from "./refusals.ts";
import type { CallbackOptions } from "./run-callback.ts";

export interface WorkOptions<Tx> extends CallbackOptions<Tx> {
  readonly skipUnchanged: boolean;
  readonly snapshotOf: SnapshotOf;
  readonly statusSeen: StatusSeen;
  readonly staySeen: StaySeen;
  /** Absent in `webhooks.process()`, which has no store, always reads the record, and adds no events. */
  readonly queued?: QueuedOptions | undefined;
}

export interface QueuedOptions {
  readonly recent: RecentAnswers;
  /** The wait before a recheck, ms. `false` turns rechecks off. */
  readonly recheckAfter: number | false;
  readonly goneWitness: GoneWitness;
  readonly refusals: Refusals;
  readonly limits: Pick<Policy, "maxAttempts" | "giveUpAfter">;
}

/** One attempt at an event that refers to a record. */
export interface RecordWork<Tx> {
  readonly options: WorkOptions<Tx>;
  readonly claim: ClaimedEvent;
  readonly context: WorkContext;
  readonly subject: Subject;
}

export type Done<Tx> = Extract<WorkResult<Tx>, { state: "done" }>;
export type Failed = Extract<WorkResult<never>, { state: "failed" }>;

/** The failure of an attempt whose callback threw. The next attempt reads the record anew. */
export function callbackFailed<Tx>({ options, claim }: RecordWork<Tx>, error: unknown, type: string): Failed {
  options.queued?.recent.drop(claim.ref);
  return { state: "failed", reason: "callback", error, type };
}

/** Compares a record that was read with the snapshot of its last handled event. */
export function compared<Tx>(
  { options, claim, subject }: RecordWork<Tx>,
  record: Booking | Listing,
): TrackedSnapshot & Comparison {
  const now = options.snapshotOf(subject.kind, record, subject.account);
  return { ...now, ...compare(claim.previous, now) };
}
