import type { StayhookClient } from "../client/client.ts";
import type { Booking, BookingStatus } from "../models/booking.ts";
import type { Listing, ListingStatus } from "../models/listing.ts";
import type { WebhookNotification } from "../models/notification.ts";

/** What every event has, whatever it is about. */
interface Common<B extends Booking, L extends Listing> {
  /** The notification's `eventId` in lower case. A callback runs to its end once for each. */
  readonly eventId: string;
  /** When it happened at the platform; for a reconcile event, when the change was seen. */
  readonly timestamp: Date;
  /** When it was recorded here. */
  readonly receivedAt: Date;
  /** `webhook`, or `reconcile` where a change was found by asking. */
  readonly source: "webhook" | "reconcile";
  /** The notification as it came, unknown fields included; `undefined` for a reconcile event. */
  readonly notification: WebhookNotification | undefined;
  /** The topic whose endpoint received it, where the endpoint was told (`{ topic }`). */
  readonly topic?: string | undefined;
  /** Which attempt this is: 1 the first time. */
  readonly attempt: number;
  /** Aborts when the attempt is cut off (`attemptTimeout`, `close`, a lost lease). Pass it to what can be stopped. */
  readonly signal: AbortSignal;
  /** The client that fetched the record. */
  readonly client: StayhookClient<B, L>;
}

interface OfRecord {
  /** The status with which an event of this record was last handled to its end; `undefined` the first time. */
  readonly previousStatus: string | undefined;
  /** `status !== previousStatus`. */
  readonly changed: boolean;
}

/** On a store without transactions the property is not there. */
type Atomically<Tx> = [Tx] extends [never]
  ? unknown
  : {
      /**
       * Runs `write` inside the store's transaction that records this event as done: neither is there without
       * the other. It runs after the callback has returned, and again if the commit fails; if it throws, the
       * attempt has failed. With several calls, the writes run in their order.
       */
      readonly atomically: (write: (tx: Tx) => unknown) => void;
    };

/** A listed status is its own literal; that of an `unknown` event is whatever the platform said. */
type StatusOf<S extends string> = S extends "unknown" ? string : S;

/**
 * A booking's event. Narrowed by `S`: `BookingEvent<"Request">` has `decideBy`, and `booking.status` is the literal.
 *
 * @typeParam S - a booking status, or `unknown` for one that is not listed
 */
export type BookingEvent<
  S extends BookingStatus | "unknown" = BookingStatus | "unknown",
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
> = {
  [K in S]: Common<B, L> &
    OfRecord &
    Atomically<Tx> & {
      readonly type: `booking.${K}`;
      /** The booking's status when it was fetched for this attempt. */
      readonly status: StatusOf<K>;
      /** The booking, fetched afresh for this attempt. */
      readonly booking: B & { readonly status: StatusOf<K> };
    } & (K extends "Request"
      ? {
          /** The platform expects a decision by then: 24 hours after `timestamp`. */
          readonly decideBy: Date;
        }
      : unknown);
}[S];

/**
 * A listing's event. Narrowed by `S`: `ListingEvent<"Published">` has `listing.status` as the literal.
 *
 * @typeParam S - a listing status, or `unknown` for one that is not listed
 */
export type ListingEvent<
  S extends ListingStatus | "unknown" = ListingStatus | "unknown",
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
> = {
  [K in S]: Common<B, L> &
    OfRecord &
    Atomically<Tx> & {
      readonly type: `listing.${K}`;
      /** The listing's status when it was fetched for this attempt. */
      readonly status: StatusOf<K>;
      /** The listing, fetched afresh for this attempt. */
      readonly listing: L & { readonly status: StatusOf<K> };
    };
}[S];

/** A notification that refers to no record, or to two: of the `messages` topic, or of something newer. */
export type UnknownEvent<B extends Booking = Booking, L extends Listing = Listing, Tx = never> = Common<
  B,
  L
> &
  Atomically<Tx> & { readonly type: "unknown" };

/** Any event; `switch (event.type)` narrows it, and can be exhaustive. */
export type WebhookEvent<B extends Booking = Booking, L extends Listing = Listing, Tx = never> =
  | BookingEvent<BookingStatus | "unknown", B, L, Tx>
  | ListingEvent<ListingStatus | "unknown", B, L, Tx>
  | UnknownEvent<B, L, Tx>;

/** What `on` takes: a callback for each type of event, and `fallback` for all that has none of its own. */
export type WebhookCallbacks<B extends Booking = Booking, L extends Listing = Listing, Tx = never> = {
  readonly [E in WebhookEvent<B, L, Tx> as E["type"]]?: ((event: E) => unknown) | undefined;
} & { readonly fallback?: ((event: WebhookEvent<B, L, Tx>) => unknown) | undefined };
