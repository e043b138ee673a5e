import type { StayhookClient } from "../client/client.ts";
import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { EventOrigin } from "../stores/event-states.ts";
import type { FieldChanges, PreviousRecord, WebhookEventMap } from "../webhooks/events.ts";

/** The types of events: `booking.Confirmed`, `listing.Published`, ..., `message`, `unknown`. */
export type TestEventType = keyof WebhookEventMap;

/** The part of a test event that the events of a handler do not have. */
export interface TestEventExtras {
  /**
   * Runs the writes that the callback gave to `event.atomically`, in order, with the `tx` of the test event. A store
   * does this after the callback has returned. Rejects with the error of the first write that fails.
   */
  readonly commit: () => Promise<void>;
}

/** The event that `createTestEvent` makes for a type. */
export type TestEvent<T extends TestEventType, B extends Booking, L extends Listing, Tx> = TestEventExtras &
  WebhookEventMap<B, L, Tx>[T];

/** The types of events about a booking. */
export type BookingEventType = Extract<TestEventType, `booking.${string}`>;
/** The types of events about a listing. */
export type ListingEventType = Extract<TestEventType, `listing.${string}`>;

/** The fields that every test event takes. */
export interface CommonFields<B extends Booking, L extends Listing, Tx> {
  /** Default: a random UUID. */
  readonly eventId?: string | undefined;
  /** Default: now. */
  readonly timestamp?: Date | undefined;
  /** Default: `timestamp`. */
  readonly receivedAt?: Date | undefined;
  /** Default `"webhook"`. */
  readonly source?: EventOrigin | undefined;
  /** Default: a notification with the same fields; `undefined` unless `source` is `webhook`. */
  readonly notification?: WebhookNotification | undefined;
  /** Default: `messages` for a `message`, else no topic. */
  readonly topic?: string | undefined;
  /** Default 1. */
  readonly attempt?: number | undefined;
  /** Default: a signal that never aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Default: a client that answers with the record of the event, and with 501 to any other request. */
  readonly client?: StayhookClient<B, L> | undefined;
  /**
   * The argument of the callback's writes, such as a `DatabaseSync`. The test event collects the writes, and
   * `event.commit()` runs them. Without `tx`, `event.atomically` throws.
   */
  readonly tx?: Tx | undefined;
  /** Replaces the function that collects writes. */
  readonly atomically?: ((write: (tx: Tx) => unknown) => void) | undefined;
}

/** The fields that an event about a booking takes. */
export type BookingFields<T extends BookingEventType, B> = RecordFields<StatusOf<T>> & {
  /** Fields of the booking, and of your own model. Missing fields of {@link Booking} have defaults. */
  readonly booking?: (B & GivenRecord<Booking, StatusOf<T>>) | undefined;
} & (T extends "booking.Request"
    ? {
        /** Default: 24 hours after `timestamp`; `undefined` if `source` is `reconcile`. */
        readonly decideBy?: Date | undefined;
      }
    : unknown);

/** The fields that an event about a listing takes. */
export type ListingFields<T extends ListingEventType, L> = RecordFields<StatusOf<T>> & {
  /** Fields of the listing, and of your own model. Missing fields of {@link Listing} have defaults. */
  readonly listing?: (L & GivenRecord<Listing, StatusOf<T>>) | undefined;
};

interface RecordFields<S extends string> {
  /** Default: the status of the record or the type. Default for `booking.unknown` and `listing.unknown`: `"OnHold"`. */
  readonly status?: S | undefined;
  /** Default: the record with `previousStatus`. Without that, `undefined`, as for the first event of a record. */
  readonly previous?: PreviousRecord | undefined;
  /** Default: the status of `previous`. */
  readonly previousStatus?: string | undefined;
  /** Default: `true` if `changes` has fields. */
  readonly changed?: boolean | undefined;
  /** Default: the difference between `previous` and the record. */
  readonly changes?: FieldChanges | undefined;
}

type StatusOf<T> = T extends `${string}.${infer S}` ? (S extends "unknown" ? string : S) : never;

type GivenRecord<R, S extends string> = Partial<Omit<R, "status">> & { status?: S | undefined };

/** The fields that `createTestEventOf` takes for an event, such as `BookingEvent<"Confirmed", MyBooking>`. */
export type FieldsOfEvent<E> = {
  readonly [Field in Exclude<keyof E, "type" | "booking" | "listing" | keyof TestEventExtras>]?:
    | E[Field]
    | undefined;
} & Own<E, "booking", Booking> &
  Own<E, "listing", Listing> & {
    /** The transaction that `commit` hands to the writes. */
    readonly tx?: E extends { atomically: (write: (tx: infer Tx) => unknown) => void } ? Tx : undefined;
  };

/** A test may leave out the fields of this package's model, but not those that the user's own model requires. */
type Own<E, Name extends string, R> = E extends { readonly [N in Name]: infer Given extends object }
  ? Record<never, never> extends Omit<Given, keyof R>
    ? { readonly [N in Name]?: Mine<Given, R> | undefined }
    : { readonly [N in Name]: Mine<Given, R> }
  : unknown;

type Mine<Given, R> = Omit<Given, keyof R> &
  Partial<Pick<Given, keyof R & keyof Given>> & { readonly [field: string]: unknown };
