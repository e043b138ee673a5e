import type { Log } from "../logger.ts";
import type { EventStore, FailureReason } from "../stores/event-store.ts";
import type { Backoff } from "./backoff.ts";
import type { Work } from "./work.ts";

/** The limits by which the queue decides what becomes of an event. All times in ms. */
export interface Policy {
  readonly concurrency: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly attemptTimeout: number;
  readonly leaseDuration: number;
  readonly giveUpAfter: number;
  readonly retention: number;
  readonly parkedRetention: number;
  readonly recordRetention: number;
}

export interface QueueOptions<Tx> {
  readonly store: EventStore<Tx>;
  readonly work: Work<Tx>;
  readonly policy: Policy;
  /** Must not throw. */
  readonly observe: (event: QueueObservation) => void;
  readonly logger: Log;
  /** Host and pid of this process, for the history: `web-1:4711`. */
  readonly worker: string;
}

interface OfEvent {
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null`. */
  readonly ref: string | null;
  /** The event's type, where the attempt came to know it. */
  readonly type: string | undefined;
  /** Which attempt it was; those that found the platform out of reach are not counted. */
  readonly attempt: number;
}

/** What the queue tells of its work. */
export type QueueObservation =
  | (OfEvent & {
      readonly kind: "done";
      readonly status: string | undefined /** ms */;
      readonly duration: number;
    })
  | (OfEvent & {
      readonly kind: "failed";
      readonly reason: FailureReason;
      readonly error: unknown;
      /** ms until the next attempt. */
      readonly retryIn: number;
      /** ms */
      readonly duration: number;
    })
  | (OfEvent & {
      readonly kind: "parked";
      readonly reason: FailureReason;
      readonly error: unknown;
    })
  | {
      readonly kind: "paused";
      /** `unreachable`: nobody answers, or a limit or token stops us. `refused`: record after record is refused or not found. */
      readonly cause: "unreachable" | "refused";
      /** ms until the platform is tried again. */
      readonly wait: number;
      readonly error: unknown;
    }
  | { readonly kind: "resumed" };
