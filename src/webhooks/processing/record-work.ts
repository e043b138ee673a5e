// One attempt at an event that refers to a record: what its steps share.

import type { Log } from "../../logger.ts";
import type { Policy, WorkContext, WorkResult } from "../../queue/work.ts";
import type { StaysEngine } from "../../stays/engine.ts";
import type { LedgerChanges } from "../../stays/plans.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import type { Subject } from "../refs.ts";
import type { GoneWitness } from "./gone-witness.ts";
import type { StatusSeen, StaySeen } from "./read-warnings.ts";
import type { RecentAnswers } from "./record.ts";
import type { Refusals } from "./refusals.ts";
import type { CallbackOptions } from "./run-callback.ts";
import type { LookAt } from "./snapshots.ts";
import type { ZoneOf } from "./time-zone.ts";

export interface WorkOptions<Tx> extends CallbackOptions<Tx> {
  readonly lookAt: LookAt;
  readonly zoneOf: ZoneOf;
  readonly log: Log;
  /** The statuses in which a stay holds. */
  readonly holds: readonly string[];
  readonly statusSeen: StatusSeen;
  readonly staySeen: StaySeen;
  /** The engine of the option `stays`. */
  readonly things?: StaysEngine | undefined;
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

export type Released = Extract<WorkResult<never>, { state: "released" }>;
/** How an attempt ends. */
export type Ended<Tx> = Done<Tx> | Failed | Released;

/** Thrown in the place of a call of the user's code: what the attempt records before that call. */
export class BeforeCall extends Error {
  readonly changes: LedgerChanges;

  constructor(changes: LedgerChanges) {
    super("the plan is recorded first");
    this.changes = changes;
  }
}

/** The end of an attempt whose callback threw. The next attempt reads the record anew. */
export function callbackFailed<Tx>(
  { options, claim }: Pick<RecordWork<Tx>, "options" | "claim">,
  error: unknown,
  type: string,
): Failed | Released {
  if (error instanceof BeforeCall) return { state: "released", ...error.changes };
  options.queued?.recent.drop(claim.ref);
  return { state: "failed", reason: "callback", error, type };
}
