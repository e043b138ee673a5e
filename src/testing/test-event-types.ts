import type { StayhookClient } from "../client/client.ts";
import type { Booking } from "../models/booking.ts";
import type { Listing } from "../models/listing.ts";
import type { WebhookNotification } from "../models/notification.ts";
import type { WebhookEvent } from "../webhooks/events.ts";

/** `booking.Confirmed`, `listing.Published`, ..., `unknown`: what `on` has callbacks for. */
export type TestEventType = WebhookEvent["type"];

/** What a test event has beside all that the handler's own has. */
export interface TestEventExtras {
  /**
   * Runs what the callback has given to `event.atomically`, one after the other, on the `tx` that the event was
   * made with: what the store does when a callback has returned. Rejects with what a write throws.
   */
  readonly commit: () => Promise<void>;
}

/** The event of a type, with the callback's writes to be committed by hand. */
export type TestEvent<T extends TestEventType, B extends Booking, L extends Listing, Tx> = TestEventExtras &
  Extract<WebhookEvent<B, L, Tx>, { readonly type: T }>;

/** The types of events about a booking. */
export type BookingEventType = Extract<TestEventType, `booking.${string}`>;
/** The types of events about a listing. */
export type ListingEventType = Extract<TestEventType, `listing.${string}`>;

/** What may be given for any event; everything has a default. */
export interface CommonFields<B extends Booking, L extends Listing, Tx> {
  /** Default: a random UUID. */
  readonly eventId?: string | undefined;
  /** When it happened. Default: now. */
  readonly timestamp?: Date | undefined;
  /** Default: `timestamp`. */
  readonly receivedAt?: Date | undefined;
  /** Default `"webhook"`. */
  readonly source?: "webhook" | "reconcile" | undefined;
  /** Default: the one that fits the other fields; none where the source is `reconcile`. */
  readonly notification?: WebhookNotification | undefined;
  /** Default: not there. */
  readonly topic?: string | undefined;
  /** Default 1. */
  readonly attempt?: number | undefined;
  /** Default: one that does not abort. */
  readonly signal?: AbortSignal | undefined;
  /** Default: one that gives the event's own record, and answers 501 to everything else. */
  readonly client?: StayhookClient<B, L> | undefined;
  /**
   * What the callback's writes get, such as a `DatabaseSync`. They are collected, and run by `event.commit()`.
   * Without it, `event.atomically` throws.
   */
  readonly tx?: Tx | undefined;
  /** In the place of the one that collects: a mock, say. */
  readonly atomically?: ((write: (tx: Tx) => unknown) => void) | undefined;
}

/** What may be given for a booking's event. */
export type BookingFields<T extends BookingEventType, B> = StatusFields<StatusOf<T>> & {
  /** Fields of the booking, those of your own model too; those of ours have defaults. */
  readonly booking?: (B & RecordFields<Booking, StatusOf<T>>) | undefined;
} & (T extends "booking.Request"
    ? {
        /** Default: 24 hours after `timestamp`. */
        readonly decideBy?: Date | undefined;
      }
    : unknown);

/** What may be given for a listing's event. */
export type ListingFields<T extends ListingEventType, L> = StatusFields<StatusOf<T>> & {
  /** Fields of the listing, those of your own model too; those of ours have defaults. */
  readonly listing?: (L & RecordFields<Listing, StatusOf<T>>) | undefined;
};

interface StatusFields<S extends string> {
  /** Default: that of the record, else that of the type; `"OnHold"` where the type is `unknown`. */
  readonly status?: S | undefined;
  /** Default: none, as the first time. */
  readonly previousStatus?: string | undefined;
  /** Default: whether `status` and `previousStatus` differ. */
  readonly changed?: boolean | undefined;
}

type StatusOf<T> = T extends `${string}.${infer S}` ? (S extends "unknown" ? string : S) : never;

/** The fields of a record that are known by name, without the index signature that takes any other. */
type Known<R> = { [Field in keyof R as string extends Field ? never : Field]: R[Field] };

type RecordFields<R, S extends string> = Partial<Omit<Known<R>, "status">> & { status?: S | undefined };

/** What may be given for an event of a type that is written out, such as `BookingEvent<"Confirmed", MyBooking>`. */
export type FieldsOfEvent<E> = {
  readonly [Field in Exclude<keyof E, "type" | "booking" | "listing" | keyof TestEventExtras>]?:
    | E[Field]
    | undefined;
} & Own<E, "booking", Booking> &
  Own<E, "listing", Listing> & {
    readonly tx?: E extends { atomically: (write: (tx: infer Tx) => unknown) => void } ? Tx : undefined;
  };

/** Of a record, the fields of ours may be left out; those of the user's own model may not, where it requires them. */
type Own<E, Name extends string, R> = E extends { readonly [N in Name]: infer Given }
  ? Record<never, never> extends Omit<Known<Given>, keyof Known<R>>
    ? { readonly [N in Name]?: Mine<Given, R> | undefined }
    : { readonly [N in Name]: Mine<Given, R> }
  : unknown;

type Mine<Given, R> = Omit<Known<Given>, keyof Known<R>> &
  Partial<Pick<Known<Given>, keyof Known<R> & keyof Known<Given>>> & { readonly [field: string]: unknown };
