// An event as a handler adds it, as a claim gives it, and as a list shows it.

import type { EventOrigin, EventState, FailureReason } from "./event-states.ts";
import type { Snapshot, TrackedValue } from "./snapshot.ts";

/** An event to record. The handler answers a notification only after it has recorded the event. */
export interface NewEvent {
  /**
   * The notification's `eventId`, in lower case. A store records each id once. A timer is added as
   * `stayhook:timer:<ref>:<name>`. Its events and claims have the `timestamp` behind that, because each time that was set
   * has an id of its own.
   */
  readonly eventId: string;
  /**
   * The event's record: `booking:<code>`, `listing:<id>`, or `message:<code>` for the messages about a booking. It is `null`
   * if the event refers to no record.
   */
  readonly ref: string | null;
  /** The origin of the event. */
  readonly source: EventOrigin;
  /** The topic of the endpoint that received the notification. It is `null` if no topic is known. */
  readonly topic: string | null;
  /** The time of the event, usually the timestamp of its notification. ISO 8601 in UTC. */
  readonly timestamp: string;
  /**
   * The JSON text of the notification. Rechecks and timers store their own JSON here. The reconciler's events have `null`.
   * If the event has no record, or is a message, the store drops the text when the event becomes done, and keeps the id.
   */
  readonly notification: string | null;
  /** The W3C `traceparent` of the span that recorded the event. Default `null`. */
  readonly traceparent?: string | null | undefined;
}

/** An event that this process has leased. No other process may work on the event or its record during the lease. */
export interface ClaimedEvent extends NewEvent {
  /** When the store recorded the event. Epoch ms by the store's clock. */
  readonly receivedAt: number;
  /** When this claim was made. Epoch ms by the store's clock. */
  readonly claimedAt: number;
  /** When the event was due before this claim. After a lost attempt: the end of its lease. By the store's clock. */
  readonly dueAt: Date;
  /** When the event was due for the first time, or was replayed. Retries and leases do not change it. By the store's clock. */
  readonly firstDueAt: Date;
  /** The number of calls of the callback, the current attempt included. Lost attempts count, and failed reads do not. */
  readonly attempts: number;
  /** The number of attempts in a row that counted as nothing. `attempts` does not include them. */
  readonly outages: number;
  /** The time since the first of the attempts that `outages` counts, ms. It is 0 if `outages` is 0. */
  readonly outageFor: number;
  /** The number of failed reads in a row that count. */
  readonly failures: number;
  /** The number of refused reads in a row. */
  readonly refusals: number;
  /** The last entry of the event's history that has a `reason`. It is `undefined` if no attempt has failed. */
  readonly lastFailure: AttemptEntry | undefined;
  /** Whether the event was replayed. */
  readonly replayed: boolean;
  /** The record's snapshot at the time of the claim. It is `undefined` if there is no snapshot. */
  readonly previous: Snapshot | undefined;
  /** The sequence number of `previous`. It is 0 if there is no snapshot. */
  readonly sequence: number;
  /** The record's ledger at the time of the claim. It is `undefined` if the record has none. */
  readonly ledger: string | undefined;
  /** The fencing token of the lease. Each lease has its own token. */
  readonly lease: string;
}

/** One attempt in an event's history. */
export interface AttemptEntry {
  /** When the event was claimed for this attempt. */
  readonly at: Date;
  /** The time from the claim to the end of the attempt, ms. A `lost` attempt ends with its lease. */
  readonly duration: number;
  /** How the attempt ended. It is `lost` if the lease ended before the process recorded a result. */
  readonly outcome: "done" | "retrying" | "parked" | "lost";
  /** Why the attempt failed. It is `undefined` if nothing failed or the lease was lost. */
  readonly reason?: FailureReason | undefined;
  /**
   * The error's message and the messages of its causes, 2 KiB at most. For an error of a callback, up to three frames of
   * its own stack follow in lines below.
   */
  readonly error?: string | undefined;
  /** Host and pid of the process that made the attempt. */
  readonly worker?: string | undefined;
  /**
   * How the record differed from its last snapshot: the status and the tracked fields, by name. It is `undefined` if
   * nothing had changed, if there was no snapshot, or if the attempt did not end with `done`.
   */
  readonly changes?: {
    readonly [field: string]: {
      /** The value in the snapshot. */
      readonly from: TrackedValue;
      /** The value that the attempt read. */
      readonly to: TrackedValue;
    };
  };
}

/** An event as {@link EventStore.list} and {@link EventStore.get} show it. */
export interface StoredEvent extends NewEvent {
  /** The state of the event. */
  readonly state: EventState;
  /** The number of calls of the callback that failed. Lost attempts count, and failed reads do not. */
  readonly attempts: number;
  /** The number of failed reads in a row that count. */
  readonly failures: number;
  /** The number of refused reads in a row. */
  readonly refusals: number;
  /** When the store recorded the event. */
  readonly receivedAt: Date;
  /** When the event is due. For a processing event: when its lease ends. For a done or parked event: `null`. */
  readonly dueAt: Date | null;
  /** When the event was due for the first time, or was replayed. Retries and leases do not change it. */
  readonly firstDueAt: Date;
  /** When the event became `done`, by success or by a discard. It is `null` in other states. */
  readonly doneAt: Date | null;
  /** The event's type. It is `null` until an attempt finds it out. */
  readonly type: string | null;
  /** Why the last attempt failed. It is `discarded` if {@link EventStore.discard} ended the event. */
  readonly reason: FailureReason | "discarded" | null;
  /** The last 10 attempts, the oldest first. A replay keeps the history. A released attempt has no entry. */
  readonly history: readonly AttemptEntry[];
  /** The W3C `traceparent` of the span that recorded the event. It is `null` if there was none. */
  readonly traceparent: string | null;
}

/** Names the record of an event. Without a `ref`, the event has a record of its own. */
export type RecordName = Pick<NewEvent, "ref" | "eventId">;
