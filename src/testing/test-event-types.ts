// What `createTestEvent` takes and returns, by the type of the event.

import type { BookingStay } from "../models/booking-stay.ts";
import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { EventOrigin } from "../stores/event-states.ts";
import type { WithAccount } from "../webhooks/event-additions.ts";
import type { WebhookEvent } from "../webhooks/events.ts";
import type { FieldChanges, PreviousRecord } from "../webhooks/field-changes.ts";
import type { StayChange } from "../webhooks/stay-change.ts";

/** The types of events: `booking.Confirmed`, `listing.Published`, ..., `message`, `unknown`. */
export type TestEventType = Exclude<WebhookEvent["type"], TimerEventType<"booking" | "listing">>;

/** The members that test events have, but real events do not have. */
export type TestEventExtras = {
  /**
   * Runs the functions that the callback passed to `event.atomically`, in order, with the `tx` of the test event.
   * Call `commit` after the callback has returned. Rejects with the error of the first function that fails.
   */
  readonly commit: () => Promise<void>;
};

/** The event that `createTestEvent` makes for a type. */
export type TestEvent<
  T extends TestEventType | TimerEventType<"booking" | "listing">,
  B extends Booking,
  L extends Listing,
  Tx,
  A = unknown,
> = TestEventExtras & OfType<WebhookEvent<B, L, Tx, never, A>, T>;

/** The fields of an event that was made with an account. */
export type TestAccount<A extends string> = [A] extends [never] ? unknown : WithAccount;

type OfType<E, T> = E extends WebhookEvent ? (T extends E["type"] ? E : never) : never;

/** The types of the events of timers. */
export type TimerEventType<K extends "booking" | "listing"> = `${K}.timer.${string}`;

/** The types of events about a booking. */
export type BookingEventType = Extract<TestEventType, `booking.${string}`>;
/** The types of events about a listing. */
export type ListingEventType = Extract<TestEventType, `listing.${string}`>;

/** The fields that every test event takes. */
export type TestEventFields<Tx, A extends string = never> = {
  /** Default: a random UUID. With `account`, `event.eventId` begins with the account. */
  readonly eventId?: string | undefined;
  /** The account, for a callback of a handler with `accountFrom`. Default: the event has no account. */
  readonly account?: A | undefined;
  /** Default: now. */
  readonly timestamp?: Date | undefined;
  /** Default: `timestamp`. */
  readonly receivedAt?: Date | undefined;
  /** Default `"webhook"`. */
  readonly source?: Exclude<EventOrigin, "thing"> | undefined;
  /** Default: if `source` is `webhook`, a notification with the event's ids and time; else `undefined`. */
  readonly notification?: WebhookNotification | undefined;
  /** Default: `messages` for the type `message`. Other types have no topic by default. */
  readonly topic?: string | undefined;
  /** Default 1. */
  readonly attempt?: number | undefined;
  /** Default: a signal that never aborts. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The transaction, such as a `DatabaseSync`. The test event collects the functions that the callback passes to
   * `event.atomically`, and `event.commit()` calls them with `tx`. Without `tx`, `event.atomically` throws.
   */
  readonly tx?: Tx | undefined;
  /** Replaces `event.atomically`. Default: collects the given functions for `event.commit()`. */
  readonly atomically?: ((write: (tx: Tx) => unknown) => void) | undefined;
};

/** The fields that an event about a booking takes. */
export type TestBookingFields<T extends string, B> = FieldsOf<T> & {
  /** Fields of the booking, including those of your own model. Missing fields of {@link Booking} have defaults. */
  readonly booking?: (B & GivenRecord<Booking, StatusInType<T>> & Misspelt<B, Booking>) | undefined;
  /** The zone of the booking's days, as the handler's option `timeZone` would give it. Default: none. */
  readonly timeZone?: string | undefined;
  /** Default: the stay in the booking's fields. */
  readonly stay?: BookingStay | undefined;
  /** Default: from the stay of `previous` to that of the booking. */
  readonly stayChange?: StayChange | undefined;
} & (T extends "booking.Request"
    ? {
        /** Default: 24 hours after `timestamp`. */
        readonly decideBy?: Date | undefined;
      }
    : unknown);

/** The fields that an event about a listing takes. */
export type TestListingFields<T extends string, L> = FieldsOf<T> & {
  /** Fields of the listing, including those of your own model. Missing fields of {@link Listing} have defaults. */
  readonly listing?: (L & GivenRecord<Listing, StatusInType<T>> & Misspelt<L, Listing>) | undefined;
};

type FieldsOf<T extends string> = T extends `${string}.timer.${string}`
  ? TestTimerFields
  : TestRecordFields<StatusInType<T>>;

/** The fields that the event of a timer takes. */
export type TestTimerFields = {
  /** The time that was set. Default: `timestamp`. */
  readonly timer?:
    | {
        /** The time that was set. */
        readonly at: Date;
      }
    | undefined;
  /** Collects the timers that the callback sets, by name. Default: a new map. */
  readonly timers?: Map<string, Date> | undefined;
  /** The status of the record. Default `Confirmed`, or `Published` for a listing. */
  readonly status?: string | undefined;
  /** The record in its last handled event. Default: the record as it is now, because nothing has changed. */
  readonly previous?: PreviousRecord<string> | undefined;
};

/** The fields that an event about a booking or listing takes, timers aside. */
export type TestRecordFields<S extends string> = {
  /** Collects the timers that the callback sets, by name; `clear` deletes them. Default: a new map. */
  readonly timers?: Map<string, Date> | undefined;
  /**
   * Default: the status that the event type names. If the type ends with `.unknown`: the status of the record, or
   * `"OnHold"`.
   */
  readonly status?: S | undefined;
  /** If it has only a `status`, the record's tracked fields are added. Default: `undefined`, as for a new record. */
  readonly previous?: PreviousRecord<string> | undefined;
  /** Default: `true` if `changes` has fields. */
  readonly changed?: boolean | undefined;
  /** Default: the difference between `previous` and the record. */
  readonly changes?: FieldChanges<string> | undefined;
};

type StatusInType<T> = T extends `${string}.${infer S}`
  ? S extends "unknown" | `timer.${string}`
    ? string
    : S
  : never;

type GivenRecord<R, S extends string> = Partial<Omit<R, "status">> & {
  /** Default: the status that the event type names. */
  status?: S | undefined;
};

/** Refuses the fields of `G` that differ from a field of `R` only in the case of their letters, and names that field. */
type Misspelt<G, R> = {
  readonly [Field in Exclude<keyof G, keyof R> & string as Lowercase<Field> extends Lowercase<
    keyof R & string
  >
    ? Field
    : never]?: {
    /** The field that was meant. */
    readonly "did you mean": MeantBy<Field, keyof R & string>;
  };
};
type MeantBy<Field extends string, Known extends string> = Known extends unknown
  ? Lowercase<Known> extends Lowercase<Field>
    ? Known
    : never
  : never;
