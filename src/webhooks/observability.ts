// What a handler tells others: the types of the options `observe` and `telemetry`.

import type { Observers } from "../client/observers.ts";
import type { AttemptResult, QueueObservation } from "../queue/work.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { AddAnswer } from "../stores/store-steps.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import type { FieldChanges } from "./field-changes.ts";
import type { ReceiveObservation } from "./receiving/answers.ts";

/** The argument of the `observe` option. `kind` narrows its type. */
export type Observation =
  | ReceiveObservation
  | QueueObservation
  | SilentObservation
  | ReconcilerAlarm
  | OperatedObservation;

/** Reports a change that a person has made in the console. */
export type OperatedObservation = {
  /** The kind of the observation. */
  readonly kind: "operated";
  /** What the person did. `run now` is the replay of an event before its time. */
  readonly action: "replay" | "run now" | "discard" | "erase";
  /** Who did it, as `authorize` of the console said. It is `undefined` if `authorize` returned `true`. */
  readonly user: string | undefined;
  /** The event, if the person chose single events. Each of them has an observation of its own. */
  readonly eventId?: string | undefined;
  /** The record of the event, or the record that was erased. */
  readonly ref?: string | null | undefined;
  /** The account of the event or record, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** The filter, if the person changed all events that match it. */
  readonly filter?: OperatedFilter | undefined;
  /** How many events were changed or deleted. */
  readonly count: number;
};

/** The filter of a change in the console. */
export type OperatedFilter = EventFilter & {
  /** The text that the person searched in the events' errors. It may have personal data. */
  readonly error?: string | undefined;
  /** The cause of the parked events, as in the URL of the page. */
  readonly cause?: string | undefined;
};

/** Reports that no notification has arrived for `silentAfter` ms. */
export type SilentObservation = {
  /** The kind of the observation. */
  readonly kind: "silent";
  /** When the newest notification was recorded. It is `undefined` if there has never been a notification. */
  readonly lastReceivedAt: Date | undefined;
};

/** Reports that the platform's webhook configuration is inactive or missing, or has an unexpected endpoint. */
export type DriftObservation = {
  /** The kind of the observation. */
  readonly kind: "drift";
  /** The account of the configuration, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** Whether the platform sends notifications. */
  readonly isActive: boolean;
  /** The topics whose endpoint differs from the expected endpoint. */
  readonly topics: readonly string[];
};

/** Reports a change whose notification never arrived. The reconciler has added an event for the change. */
export type MissedObservation = {
  /** The kind of the observation. */
  readonly kind: "missed";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The account of the record, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges<string>;
};

/** An alarm of the reconciler. The reconciler also passes each alarm to the handler's `observe`. */
export type ReconcilerAlarm = DriftObservation | MissedObservation;

/** The numbers of waiting and parked events in a store. */
export type WaitingEvents = {
  /** How many events are pending or retrying. */
  readonly waiting: number;
  /** Time since the oldest waiting event was first due, or was replayed, ms. It is 0 if no event waits. */
  readonly oldestAge: number;
  /** How many events are parked. */
  readonly parked: number;
};

/**
 * Traces and measures a handler and its client. For OpenTelemetry, use `telemetry()` of `stayhook/otel`. The client
 * calls `onRequest` and `onResponse`, and the handler calls the other functions.
 *
 * The handler still handles an event if one of these functions throws, hangs or does not call `run`. The handler logs
 * such a failure at most once a minute.
 */
export interface Telemetry extends Observers {
  /**
   * Called before the store records a new event.
   *
   * @param added - resolves to the result of the store, or rejects if the store fails
   * @returns the W3C `traceparent` to store with the event. {@link process} gets this `traceparent` in the event
   */
  recorded(event: NewEvent, added: Promise<AddAnswer>): string | undefined;
  /**
   * Wraps an attempt and the recording of its result. Must call `run` once and resolve to the result of `run`.
   *
   * @param event - the event, with the `traceparent` that {@link recorded} returned
   */
  process<R extends AttemptResult>(event: ClaimedEvent, run: () => Promise<R>): Promise<R>;
  /** Called with every observation that the handler's `observe` gets. */
  observe?(observation: Observation): void;
  /**
   * Called once, when a handler with an `EventStore` is made. A handler with `forwardTo` does not call `watch`.
   *
   * @param waiting - counts the waiting and parked events. Queries the store at most once a second
   * @returns a function that the handler calls when it closes
   */
  watch?(waiting: () => Promise<WaitingEvents>): () => void;
}
