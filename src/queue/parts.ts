import type { AttemptEnd } from "./attempt.ts";
import type { ChangeSignal } from "./change-signal.ts";
import type { Claims } from "./claims.ts";
import type { Fairness } from "./fairness.ts";
import type { Floods } from "./floods.ts";
import type { Gates } from "./gates.ts";
import type { Leases } from "./leases.ts";
import type { RunningAttempts } from "./running-attempts.ts";
import type { Tries } from "./tries.ts";
import type { Unrecorded } from "./unrecorded.ts";
import type { QueueOptions } from "./work.ts";

/** The parts of a queue, which ask each other. */
export interface Parts<Tx> extends QueueOptions<Tx> {
  readonly gates: Gates;
  readonly floods: Floods;
  readonly fairness: Fairness;
  readonly unrecorded: Unrecorded;
  readonly leases: Leases<Tx>;
  readonly running: RunningAttempts<Tx>;
  readonly claims: Claims<Tx>;
  readonly tries: Tries<Tx>;
  readonly changes: ChangeSignal;
  /** Lets others begin: a slot is free, a claim has ended that had reserved slots, or other events may begin than before. */
  slotFreed(): void;
  /** Lets others go on after an attempt. */
  attemptEnded(end: AttemptEnd): void;
}
