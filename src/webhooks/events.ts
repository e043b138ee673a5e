import type { StayhookClient } from "../client/client.ts";
import type { WebhookNotification } from "../models/notification.ts";
import {
  type Booking,
  type BookingStatus,
  bookingStatuses,
  type Listing,
  type ListingStatus,
  listingStatuses,
} from "../models/records.ts";
import type { EventOrigin } from "../stores/event-states.ts";
import type { SynchronousTransaction, TrackedValue } from "../stores/event-store.ts";

// In each interface `client` stands last: TypeScript reports the first member that does not fit, and an error about
// a client is long.

/** The fields of every event. */
export interface EventBase<B extends Booking = Booking, L extends Listing = Listing> {
  /** The id of the event in lower case. A callback runs to its end once for each id. */
  readonly eventId: string;
  /** When the event happened at the platform. Equals `receivedAt` where the notification has no readable time. */
  readonly timestamp: Date;
  /** When the store recorded the event. */
  readonly receivedAt: Date;
  /**
   * The origin of the event. `webhook`: a notification. `reconcile`: the reconciler found the change. `recheck`: a
   * second read of a record that had not changed when its notification came.
   */
  readonly source: EventOrigin;
  /** The notification with all its fields; `undefined` for an event that no notification brought. */
  readonly notification: WebhookNotification | undefined;
  /** The topic of the endpoint that received the notification, where the endpoint was told its topic. */
  readonly topic?: string | undefined;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Aborts when the attempt has to stop: its timeout, `close`, or a lost lease. Pass it to `fetch` and the like. */
  readonly signal: AbortSignal;
  /** The client that fetched the record. */
  readonly client: StayhookClient<B, L>;
}

/** How a field differs from `event.previous`. */
export interface FieldChange {
  /** The value in `previous`; `undefined` where `previous` is undefined. */
  readonly from: TrackedValue | undefined;
  /** The value in the record as it was read for this event. */
  readonly to: TrackedValue;
}

/**
 * The fields that differ from `event.previous`. Empty where nothing changed. The members named here are compared by
 * default. The option `track` chooses others, which are read by their name.
 *
 * @example
 * ```ts
 * for (const [field, change] of Object.entries(event.changes))
 *   console.log(field, change?.from, "->", change?.to); // checkOut 2026-07-04 -> 2026-07-06
 * ```
 */
export interface FieldChanges {
  /** Present if the status differs. Always compared. */
  readonly status?: FieldChange | undefined;
  /** Present if a booking's day of arrival differs. By default both values are `YYYY-MM-DD`. */
  readonly checkIn?: FieldChange | undefined;
  /** Present if a booking's day of departure differs. By default both values are `YYYY-MM-DD`. */
  readonly checkOut?: FieldChange | undefined;
  /** Present if a booking has moved to another listing. */
  readonly listingId?: FieldChange | undefined;
  /** Present if a listing's name differs. */
  readonly listingName?: FieldChange | undefined;
  /** The change of a field that `track` chooses. */
  readonly [field: string]: FieldChange | undefined;
}

/**
 * A record's status and tracked fields when an event of it was last handled to its end. The members named here are
 * kept by default. The option `track` chooses others, which are read by their name.
 */
export interface PreviousRecord {
  /** The status at that time. */
  readonly status: string;
  /** A booking's day of arrival at that time. By default `YYYY-MM-DD`. */
  readonly checkIn?: TrackedValue | undefined;
  /** A booking's day of departure at that time. By default `YYYY-MM-DD`. */
  readonly checkOut?: TrackedValue | undefined;
  /** The listing of a booking at that time. */
  readonly listingId?: TrackedValue | undefined;
  /** A listing's name at that time. */
  readonly listingName?: TrackedValue | undefined;
  /** The value, at that time, of a field that `track` chooses. */
  readonly [field: string]: TrackedValue | undefined;
}

/** The fields of every event about a booking or listing. */
export interface RecordEventBase<B extends Booking = Booking, L extends Listing = Listing>
  extends EventBase<B, L> {
  /** Whether the status or a tracked field differs from `previous`. True where `previous` is undefined. */
  readonly changed: boolean;
  /** The fields that differ from `previous`. Without `previous`: all tracked fields and the status. */
  readonly changes: FieldChanges;
  /** The record as of the last event that was handled to its end; `undefined` the first time. */
  readonly previous: PreviousRecord | undefined;
  /** The status in `previous`; `undefined` the first time. */
  readonly previousStatus: string | undefined;
}

/** The fields that an event without a record does not have, so that `fallback` can destructure them from any event. */
interface WithoutRecord {
  /** Absent: this event is about no booking. */
  readonly booking?: undefined;
  /** Absent: this event is about no listing. */
  readonly listing?: undefined;
  /** Absent: this event is about no record. */
  readonly status?: undefined;
  /** Absent: this event is about no record. */
  readonly changed?: undefined;
  /** Absent: this event is about no record. */
  readonly changes?: undefined;
  /** Absent: this event is about no record. */
  readonly previous?: undefined;
  /** Absent: this event is about no record. */
  readonly previousStatus?: undefined;
}

/** A listed status is its own literal. The status of an `unknown` event is any text. */
type StatusOf<S extends string> = S extends "unknown" ? string : S;

/**
 * An event about a booking that has the status `S`.
 *
 * @typeParam S - a booking status, or `unknown` for one that is not listed
 */
export interface BookingEventOf<
  S extends BookingStatus | "unknown",
  B extends Booking = Booking,
  L extends Listing = Listing,
> extends RecordEventBase<B, L> {
  /** The type of the event. `switch (event.type)` narrows by it. */
  readonly type: `booking.${S}`;
  /** The status of the booking when it was fetched. */
  readonly status: StatusOf<S>;
  /**
   * The booking, fetched after the event was recorded. Further fields of the platform need a model in the client option
   * `models.booking`, or a cast: `booking as Booking & Record<string, unknown>`.
   */
  readonly booking: B & {
    /** The status that `event.type` names. In a `booking.unknown` event, it is any other text. */
    readonly status: StatusOf<S>;
  };
  /** Absent: this event is about a booking. */
  readonly listing?: undefined;
}

/** An event about a booking that waits for the host's decision. */
export interface BookingRequestEvent<B extends Booking = Booking, L extends Listing = Listing>
  extends BookingEventOf<"Request", B, L> {
  /**
   * When the platform expects a decision: 24 hours after the notification's timestamp, or after the receipt where
   * that timestamp is not plausible. `undefined` for an event of the reconciler, which cannot know when the guest asked.
   */
  readonly decideBy: Date | undefined;
}

/**
 * An event about a listing that has the status `S`.
 *
 * @typeParam S - a listing status, or `unknown` for one that is not listed
 */
export interface ListingEventOf<
  S extends ListingStatus | "unknown",
  B extends Booking = Booking,
  L extends Listing = Listing,
> extends RecordEventBase<B, L> {
  /** The type of the event. `switch (event.type)` narrows by it. */
  readonly type: `listing.${S}`;
  /** The status of the listing when it was fetched. */
  readonly status: StatusOf<S>;
  /**
   * The listing, fetched after the event was recorded. Further fields of the platform need a model in the client option
   * `models.listing`, or a cast: `listing as Listing & Record<string, unknown>`.
   */
  readonly listing: L & {
    /** The status that `event.type` names. In a `listing.unknown` event, it is any other text. */
    readonly status: StatusOf<S>;
  };
  /** Absent: this event is about a listing. */
  readonly booking?: undefined;
}

/** An event of the `messages` topic. The handler fetches no record for it. */
export interface MessageWebhookEvent<B extends Booking = Booking, L extends Listing = Listing>
  extends WithoutRecord,
    EventBase<B, L> {
  /** The type of the event. `switch (event.type)` narrows by it. */
  readonly type: "message";
  /** The handler reads no references of a message. */
  readonly ref: null;
}

/** An event that refers to no record. */
export interface UnknownEvent<B extends Booking = Booking, L extends Listing = Listing>
  extends WithoutRecord,
    EventBase<B, L> {
  /** The type of the event. `switch (event.type)` narrows by it. */
  readonly type: "unknown";
}

/** A transaction is `any` where the types of the database's client are not installed. */
type IsAny<T> = 0 extends 1 & T ? true : false;

type Synchronous<R> =
  R extends PromiseLike<unknown> ? "drop async: the writes of this store are synchronous" : R;

/**
 * The part of an event that a store with transactions adds.
 *
 * @typeParam Tx - the store's transaction
 */
export interface Transactional<Tx> {
  /**
   * Runs `write` in the store's transaction that records this event as done, so that neither is kept without the
   * other. `write` runs after the callback has returned, and again if the commit fails. If it throws, the attempt has
   * failed. Several writes run in the order of the calls.
   */
  readonly atomically: IsAny<Tx> extends true
    ? (write: (tx: Tx) => unknown) => void
    : keyof SynchronousTransaction extends keyof Tx
      ? <R>(write: (tx: Tx) => Synchronous<R>) => void
      : (write: (tx: Tx) => unknown) => void;
}

/** The part that a store with this transaction adds to an event. `never`: a store without transactions adds nothing. */
type Writing<Tx> = [Tx] extends [never] ? unknown : Transactional<Tx>;

/** The event of each type. {@link WebhookCallbacks} has a callback for each. */
export interface WebhookEventMap<B extends Booking = Booking, L extends Listing = Listing, Tx = never> {
  /** A booking with the status `Initiated`: a guest has begun to book. The platform describes no event for it. */
  "booking.Initiated": BookingEventOf<"Initiated", B, L> & Writing<Tx>;
  /** Booking Requested: a guest asks to book. Approve or decline at the platform before `decideBy`. */
  "booking.Request": BookingRequestEvent<B, L> & Writing<Tx>;
  /**
   * Booking Confirmed (Instant Book) or Booking Approved (by the host): block the listing from the `checkIn` of
   * `stay(booking)` up to, not including, its `checkOut`. Runs again, with `changed: true`, when the dates or the listing
   * of the booking change.
   */
  "booking.Confirmed": BookingEventOf<"Confirmed", B, L> & Writing<Tx>;
  /** Booking Declined: the host has declined the request. Nothing needs to be done. */
  "booking.Declined": BookingEventOf<"Declined", B, L> & Writing<Tx>;
  /** Booking Cancelled: release the listing from the `checkIn` of `stay(booking)` up to, not including, its `checkOut`. */
  "booking.Cancelled": BookingEventOf<"Cancelled", B, L> & Writing<Tx>;
  /** A booking with a status that this package does not know. `status` has it. */
  "booking.unknown": BookingEventOf<"unknown", B, L> & Writing<Tx>;
  /** A listing with the status `InReview`: the platform reviews it. */
  "listing.InReview": ListingEventOf<"InReview", B, L> & Writing<Tx>;
  /** Listing Created: the platform has accepted the listing, and it is published. */
  "listing.Published": ListingEventOf<"Published", B, L> & Writing<Tx>;
  /** A listing with the status `Hidden`. The platform describes no event for it. */
  "listing.Hidden": ListingEventOf<"Hidden", B, L> & Writing<Tx>;
  /** A listing with a status that this package does not know. `status` has it. */
  "listing.unknown": ListingEventOf<"unknown", B, L> & Writing<Tx>;
  /** A notification of the `messages` topic. The handler fetches no record for it. */
  message: MessageWebhookEvent<B, L> & Writing<Tx>;
  /** A notification that refers to no booking and no listing. The handler fetches no record for it. */
  unknown: UnknownEvent<B, L> & Writing<Tx>;
}

/**
 * An event about a booking. `S` narrows it: `BookingEvent<"Request">` has `decideBy`, and its `booking.status` is the
 * literal.
 *
 * @typeParam S - a booking status, or `unknown` for one that is not listed
 */
export type BookingEvent<
  S extends BookingStatus | "unknown" = BookingStatus | "unknown",
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
> = WebhookEventMap<B, L, Tx>[`booking.${S}`];

/**
 * An event about a listing. `S` narrows it: in a `ListingEvent<"Published">` `listing.status` is the literal.
 *
 * @typeParam S - a listing status, or `unknown` for one that is not listed
 */
export type ListingEvent<
  S extends ListingStatus | "unknown" = ListingStatus | "unknown",
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
> = WebhookEventMap<B, L, Tx>[`listing.${S}`];

/** Any event. `switch (event.type)` narrows it, and can be exhaustive. */
export type WebhookEvent<
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
> = WebhookEventMap<B, L, Tx>[keyof WebhookEventMap];

/** The callbacks of a handler: one for each type of event, and `fallback` for every type that has none. */
// A mapped type: an interface with callbacks of one `Tx` cannot be assigned to one of another.
export type WebhookCallbacks<B extends Booking = Booking, L extends Listing = Listing, Tx = never> = {
  readonly [T in keyof WebhookEventMap<B, L, Tx>]?:
    | ((event: WebhookEventMap<B, L, Tx>[T]) => unknown)
    | undefined;
} & {
  /** Runs for every event whose type has no callback here. `switch (event.type)` narrows it. */
  readonly fallback?: ((event: WebhookEvent<B, L, Tx>) => unknown) | undefined;
};

/** All types of events. */
export const eventTypes: readonly string[] = [
  ...bookingStatuses.map((status) => `booking.${status}`),
  "booking.unknown",
  ...listingStatuses.map((status) => `listing.${status}`),
  "listing.unknown",
  "message",
  "unknown",
];

/** The type of an event whose record has this status. */
export function eventType(kind: Subject["kind"], status: string): string {
  const statuses: readonly string[] = kind === "booking" ? bookingStatuses : listingStatuses;
  return `${kind}.${statuses.includes(status) ? status : "unknown"}`;
}

/** How the record that an event is about is named in a store. */
export type Subject =
  | { readonly kind: "booking"; readonly bookingCode: string }
  | { readonly kind: "listing"; readonly listingId: number };

/** Leaves out the white space around the code. A code of white space alone stays as it is. */
export function bookingRef(bookingCode: string): string {
  return `booking:${bookingCode.trim() || bookingCode}`;
}

export function listingRef(listingId: number): string {
  return `listing:${listingId}`;
}

export function parseRef(ref: string | null): Subject | undefined {
  if (ref?.startsWith("booking:")) return { kind: "booking", bookingCode: ref.slice("booking:".length) };
  if (ref?.startsWith("listing:"))
    return { kind: "listing", listingId: Number(ref.slice("listing:".length)) };
  return undefined;
}

const DAY = 24 * 60 * 60_000;
/** How far a notification's timestamp may lie before and after its receipt to be believed, ms. */
const [MOST_BEFORE, MOST_AFTER] = [7 * DAY, 5 * 60_000];

/** 24 hours after the time that a notification tells, or after its receipt if that time is not plausible. Both are epoch ms. */
export function decisionDeadline(told: number, receivedAt: number): Date {
  const isPlausible = told >= receivedAt - MOST_BEFORE && told <= receivedAt + MOST_AFTER;
  return new Date((isPlausible ? told : receivedAt) + DAY);
}
