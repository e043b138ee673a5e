import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, BookingStatus, Listing, ListingStatus } from "../models/records.ts";
import type { EventOrigin } from "../stores/event-states.ts";
import type { Writing } from "./event-additions.ts";
import type { FieldChanges, PreviousRecord } from "./field-changes.ts";
import type { StayFields, WithoutStay } from "./stay-change.ts";
import type { FiredTimer } from "./timer-rules.ts";
import type { EventTimers } from "./timers.ts";

/** The fields of every event. */
export interface EventBase {
  /**
   * The id of the event in lower case. Every delivery and every attempt of the event has the same id. A timer has another
   * id for each time that was set, so that the id can be the key of a table of sent messages.
   */
  readonly eventId: string;
  /**
   * The record of the event: `booking:<code>` or `listing:<id>`, or `message:<code>` for the messages about a booking. It is
   * `null` if the event refers to no record.
   */
  readonly ref: string | null;
  /** When the event happened at the platform. Equals `receivedAt` if the notification has no readable time. */
  readonly timestamp: Date;
  /** When the store recorded the event. */
  readonly receivedAt: Date;
  /**
   * The origin of the event. `webhook`: a notification arrived. `reconcile`: the reconciler found a change. `recheck`:
   * the handler reads the record a second time, because the record had not changed when its notification arrived, or
   * because a timer has found a change. `timer`: the time of a timer has come.
   */
  readonly source: Exclude<EventOrigin, "thing">;
  /**
   * The notification with all its fields. It is `undefined` if `source` is not `webhook`, and if you replay a done event
   * that has no record: the store has dropped its text.
   */
  readonly notification: WebhookNotification | undefined;
  /** The topic of the endpoint that received the notification. It is absent if the endpoint has no topic. */
  readonly topic?: string | undefined;
  /** The number of this call of the callback, from 1. Attempts whose read failed are left out. */
  readonly attempt: number;
  /** Aborts when the attempt must stop: on a timeout, `close` or a lost lease. Pass the signal to `fetch`. */
  readonly signal: AbortSignal;
}

/** The fields of every event about a booking or listing. */
export interface RecordEventBase<F extends string = never> extends EventBase {
  /** The record of the event: `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The timers of the booking or listing. Their changes are recorded with the end of this event. */
  readonly timers: EventTimers;
  /** Whether the status or another compared field differs from `previous`. It is `true` if `previous` is `undefined`. */
  readonly changed: boolean;
  /** The fields that differ from `previous`. If `previous` is `undefined`, all compared fields differ. */
  readonly changes: FieldChanges<F>;
  /** The snapshot of the record from its last handled event. It is `undefined` if the store has no snapshot. */
  readonly previous: PreviousRecord<F> | undefined;
}

/** Only the event of a timer has this field. It is declared as `undefined`, so that `if (event.timer)` narrows. */
interface WithoutTimer {
  /** Only the event of a timer has a timer. */
  readonly timer?: undefined;
}

/**
 * An event without a record does not have these fields. They are declared as `undefined`, so that `fallback` can
 * destructure every event. `booking` and `listing` are not among them: TypeScript narrows by `"booking" in event` only
 * if no other event declares the field.
 */
interface WithoutRecord extends WithoutTimer, WithoutStay {
  /** An event without a record has no timers. */
  readonly timers?: undefined;
  /** An event without a record has no status. */
  readonly status?: undefined;
  /** An event without a record has nothing that can change. */
  readonly changed?: undefined;
  /** An event without a record has no changes. */
  readonly changes?: undefined;
  /** An event without a record has no previous snapshot. */
  readonly previous?: undefined;
}

/** The type of `status`: `string` if `S` is `unknown`, otherwise the literal `S`. */
type StatusOf<S extends string> = S extends "unknown" ? string : S;

/**
 * An event about a booking that has the status `S`.
 *
 * @typeParam S - a booking status, or `unknown` for a status that this package does not know
 */
export interface BookingStatusEvent<
  S extends BookingStatus | "unknown",
  B extends Booking = Booking,
  F extends string = never,
> extends RecordEventBase<F>,
    StayFields,
    WithoutTimer {
  /** The type of the event. `switch (event.type)` narrows the event. */
  readonly type: `booking.${S}`;
  /** The status of the booking when it was fetched. */
  readonly status: StatusOf<S>;
  /**
   * The booking, fetched after the event was recorded. To read further fields of the platform, pass a model in the
   * client option `models.booking`, or cast: `booking as Booking & Record<string, unknown>`.
   */
  readonly booking: B & {
    /** The status that `event.type` names. In a `booking.unknown` event, any status that this package does not know. */
    readonly status: StatusOf<S>;
  };
}

/** An event about a booking that waits for the host's decision. */
export interface BookingRequestEvent<B extends Booking = Booking, F extends string = never>
  extends BookingStatusEvent<"Request", B, F> {
  /**
   * The deadline for the host's decision: 24 hours after the timestamp of the first notification that showed the booking
   * as a request, or after its arrival if the timestamp is not plausible. If no notification showed it, 24 hours after
   * the first read that did. Later notifications and changes do not move it, as long as the booking stays a request.
   */
  readonly decideBy: Date;
}

/**
 * An event about a listing that has the status `S`.
 *
 * @typeParam S - a listing status, or `unknown` for a status that this package does not know
 */
export interface ListingStatusEvent<
  S extends ListingStatus | "unknown",
  L extends Listing = Listing,
  F extends string = never,
> extends RecordEventBase<F>,
    WithoutStay,
    WithoutTimer {
  /** The type of the event. `switch (event.type)` narrows the event. */
  readonly type: `listing.${S}`;
  /** The status of the listing when it was fetched. */
  readonly status: StatusOf<S>;
  /**
   * The listing, fetched after the event was recorded. To read further fields of the platform, pass a model in the
   * client option `models.listing`, or cast: `listing as Listing & Record<string, unknown>`.
   */
  readonly listing: L & {
    /** The status that `event.type` names. In a `listing.unknown` event, any status that this package does not know. */
    readonly status: StatusOf<S>;
  };
}

/** The names of a booking's fields that the handler always compares, and those that the option `track` adds. */
type FieldsOfBooking<F extends string> = "listingId" | "checkIn" | "checkOut" | F;

/**
 * A booking that the handler knew is gone: the platform no longer returns it. The event comes once, until the platform
 * returns the booking again. Its status is then a change.
 *
 * Release what you keep for the booking, as after a cancellation. `event.stayChange.from` is the stay that ends.
 */
export interface BookingGoneEvent<B extends Booking = Booking, F extends string = never>
  extends RecordEventBase<F>,
    StayFields,
    WithoutTimer {
  /** The type of the event. `switch (event.type)` narrows the event. */
  readonly type: "booking.gone";
  /** No status of the platform: the platform returns no booking. */
  readonly status: "gone";
  /** The booking as your side knew it: its code, and the compared fields of its last handled event. */
  readonly booking: Pick<B, "bookingCode"> & {
    /** No status of the platform: the platform returns no booking. */
    readonly status: "gone";
  } & { readonly [Field in Exclude<FieldsOfBooking<F>, "bookingCode" | "status">]?: unknown };
}

/**
 * A listing that the handler knew is gone: the platform no longer returns it. The event comes once, until the platform
 * returns the listing again. Its status is then a change.
 */
export interface ListingGoneEvent<L extends Listing = Listing, F extends string = never>
  extends RecordEventBase<F>,
    WithoutStay,
    WithoutTimer {
  /** The type of the event. `switch (event.type)` narrows the event. */
  readonly type: "listing.gone";
  /** No status of the platform: the platform returns no listing. */
  readonly status: "gone";
  /** The listing as your side knew it: its id, and the compared fields of its last handled event. */
  readonly listing: Pick<L, "listingId"> & {
    /** No status of the platform: the platform returns no listing. */
    readonly status: "gone";
  } & { readonly [Field in Exclude<"listingName" | F, "listingId" | "status">]?: unknown };
}

/** The fields of the events of timers. */
interface TimerEventBase<F extends string> extends RecordEventBase<F> {
  /** The timer that fired: its name, and the time that was set. */
  readonly timer: FiredTimer;
  /** The status of the record when it was fetched. */
  readonly status: string;
  /** Always `false`: if the record has changed, the callback of the change runs before that of the timer. */
  readonly changed: false;
}

/**
 * The time of a timer has come: the callback `booking.timer.<name>` runs. The booking was fetched for this event.
 * `timestamp` is the time that was set, and `receivedAt` is when it was set.
 */
export interface BookingTimerEvent<B extends Booking = Booking, F extends string = never>
  extends TimerEventBase<F>,
    StayFields {
  /** The type of the event, such as `booking.timer.door-code`. */
  readonly type: `booking.timer.${string}`;
  /**
   * The booking, fetched when the timer fired. If `status` is `gone`, the platform no longer returns the booking, and this
   * is the booking of the `booking.gone` event.
   */
  readonly booking: B;
}

/**
 * The time of a timer has come: the callback `listing.timer.<name>` runs. The listing was fetched for this event.
 * `timestamp` is the time that was set, and `receivedAt` is when it was set.
 */
export interface ListingTimerEvent<L extends Listing = Listing, F extends string = never>
  extends TimerEventBase<F>,
    WithoutStay {
  /** The type of the event, such as `listing.timer.photos`. */
  readonly type: `listing.timer.${string}`;
  /**
   * The listing, fetched when the timer fired. If `status` is `gone`, the platform no longer returns the listing, and this
   * is the listing of the `listing.gone` event.
   */
  readonly listing: L;
}

/**
 * An event of the `messages` topic. The handler fetches no record for it. The messages about one booking are handled one
 * after the other, in the order of their arrival, except that one whose callback fails does not hold up the next ones.
 */
export interface MessageWebhookEvent extends WithoutRecord, EventBase {
  /** The type of the event. `switch (event.type)` narrows the event. */
  readonly type: "message";
  /** `message:<code>` if the notification names a booking, with the code as it spells it. Otherwise `null`. */
  readonly ref: string | null;
}

/** An event that refers to no record. */
export interface UnknownEvent extends WithoutRecord, EventBase {
  /** The type of the event. `switch (event.type)` narrows the event. */
  readonly type: "unknown";
}

/** Maps each event type to its event. {@link WebhookCallbacks} can have a callback for each type. */
export interface WebhookEventMap<
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
  F extends string = never,
  A = unknown,
> {
  /** A booking that a guest has begun to make (`Initiated`). The platform documents no event for this status. */
  "booking.Initiated": BookingStatusEvent<"Initiated", B, F> & Writing<Tx> & A;
  /** Booking Requested: a guest asks to book. Approve or decline the request at the platform before `decideBy`. */
  "booking.Request": BookingRequestEvent<B, F> & Writing<Tx> & A;
  /**
   * Booking Confirmed (Instant Book) or Booking Approved (by the host). Block the nights from `checkIn` (inclusive) to
   * `checkOut` (exclusive) of `event.stay`, stored by the booking's code: if the dates or the listing change, the
   * callback runs again, with `changed: true`, and must replace the old nights. The platform names no notification for
   * such a change, so without one the reconciler sees it.
   */
  "booking.Confirmed": BookingStatusEvent<"Confirmed", B, F> & Writing<Tx> & A;
  /** Booking Declined: the host has declined the request. Nothing needs to be done. */
  "booking.Declined": BookingStatusEvent<"Declined", B, F> & Writing<Tx> & A;
  /**
   * Booking Cancelled. Release all nights that you stored for the booking's code. Do not compute them from
   * `event.stay`: the dates may have changed since you blocked them.
   */
  "booking.Cancelled": BookingStatusEvent<"Cancelled", B, F> & Writing<Tx> & A;
  /** A booking that the handler knew, and that the platform no longer returns. Release what you keep for it. */
  "booking.gone": BookingGoneEvent<B, F> & Writing<Tx> & A;
  /** A booking whose `status` this package does not know. */
  "booking.unknown": BookingStatusEvent<"unknown", B, F> & Writing<Tx> & A;
  /** A listing with the status `InReview`: the platform reviews it. */
  "listing.InReview": ListingStatusEvent<"InReview", L, F> & Writing<Tx> & A;
  /** Listing Created: the platform has accepted the listing, and it is published. */
  "listing.Published": ListingStatusEvent<"Published", L, F> & Writing<Tx> & A;
  /** A listing with the status `Hidden`. The platform documents no event for this status. */
  "listing.Hidden": ListingStatusEvent<"Hidden", L, F> & Writing<Tx> & A;
  /** A listing that the handler knew, and that the platform no longer returns. */
  "listing.gone": ListingGoneEvent<L, F> & Writing<Tx> & A;
  /** A listing whose `status` this package does not know. */
  "listing.unknown": ListingStatusEvent<"unknown", L, F> & Writing<Tx> & A;
  /** A notification of the `messages` topic. The handler fetches no record for it. */
  message: MessageWebhookEvent & Writing<Tx> & A;
  /** A notification that refers to no booking and no listing. The handler fetches no record for it. */
  unknown: UnknownEvent & Writing<Tx> & A;
}

/**
 * An event about a booking with the status `S`, by default with any status. For example, `BookingEvent<"Request">` has
 * `decideBy`, and its `booking.status` has the type `"Request"`.
 *
 * @typeParam S - a booking status, `gone`, or `unknown` for a status that this package does not know
 * @typeParam B - your model of a booking
 * @typeParam Tx - the transaction of your store, such as `SqliteTransaction`, for `event.atomically`
 */
export type BookingEvent<
  S extends BookingStatus | "gone" | "unknown" = BookingStatus | "gone" | "unknown",
  B extends Booking = Booking,
  Tx = never,
> = WebhookEventMap<B, Listing, Tx>[`booking.${S}`];

/**
 * An event about a listing with the status `S`, by default with any status. For example, the `listing.status` of
 * `ListingEvent<"Published">` has the type `"Published"`.
 *
 * @typeParam S - a listing status, `gone`, or `unknown` for a status that this package does not know
 * @typeParam L - your model of a listing
 * @typeParam Tx - the transaction of your store, such as `SqliteTransaction`, for `event.atomically`
 */
export type ListingEvent<
  S extends ListingStatus | "gone" | "unknown" = ListingStatus | "gone" | "unknown",
  L extends Listing = Listing,
  Tx = never,
> = WebhookEventMap<Booking, L, Tx>[`listing.${S}`];

/** The event of the callback `booking`. Without tracked fields, a hover shows the name that users write. */
type BookingOfAny<B extends Booking, Tx, F extends string> = [F] extends [never]
  ? BookingEvent<BookingStatus | "gone" | "unknown", B, Tx>
  : WebhookEventMap<B, Listing, Tx, F>[`booking.${BookingStatus | "gone" | "unknown"}`];

/** The event of the callback `listing`, as {@link BookingOfAny}. */
type ListingOfAny<L extends Listing, Tx, F extends string> = [F] extends [never]
  ? ListingEvent<ListingStatus | "gone" | "unknown", L, Tx>
  : WebhookEventMap<Booking, L, Tx, F>[`listing.${ListingStatus | "gone" | "unknown"}`];

/**
 * Any event. `if ("booking" in event)` narrows to the events of bookings, and `if (event.timer)` to those of timers. After
 * these, `switch (event.type)` narrows the event, and can be exhaustive.
 */
export type WebhookEvent<
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
  F extends string = never,
  A = unknown,
> =
  | WebhookEventMap<B, L, Tx, F, A>[keyof WebhookEventMap]
  | (BookingTimerEvent<B, F> & Writing<Tx> & A)
  | (ListingTimerEvent<L, F> & Writing<Tx> & A);

/**
 * The callbacks of a handler: one for each type of event, `booking` and `listing` for the other events of a booking or
 * listing, and `fallback` for every event that is left.
 */
// Do not make this type an interface: callbacks with different types of `Tx` would not be assignable to each other.
export type WebhookCallbacks<
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
  F extends string = never,
  A = unknown,
> = {
  readonly [T in keyof WebhookEventMap]?:
    | ((event: WebhookEventMap<B, L, Tx, F, A>[T]) => unknown)
    | undefined;
} & {
  /** Runs when a timer with this name of a booking comes due: `booking.timer.door-code`. */
  readonly [timer: `booking.timer.${string}`]:
    | ((event: BookingTimerEvent<B, F> & Writing<Tx> & A) => unknown)
    | undefined;
  /** Runs when a timer with this name of a listing comes due: `listing.timer.photos`. */
  readonly [timer: `listing.timer.${string}`]:
    | ((event: ListingTimerEvent<L, F> & Writing<Tx> & A) => unknown)
    | undefined;
} & {
  /**
   * Runs for every event of a booking whose type has no callback, timers aside. With `event.stayChange`, this one
   * callback keeps your side right.
   */
  readonly booking?: ((event: BookingOfAny<B, Tx, F> & A) => unknown) | undefined;
  /** Runs for every event of a listing whose type has no callback, timers aside. */
  readonly listing?: ((event: ListingOfAny<L, Tx, F> & A) => unknown) | undefined;
  /** Runs for every event whose type has no callback. `switch (event.type)` narrows the event. */
  readonly fallback?: ((event: WebhookEvent<B, L, Tx, F, A>) => unknown) | undefined;
};
