// What the sandbox tells of its requests and deliveries.

import type { SandboxFault } from "./faults.ts";

/** A request that the sandbox's API answered. */
export interface SandboxRequest {
  /** The account whose token the request has. It is `undefined` for an unknown token, and in a sandbox without accounts. */
  readonly account?: string | undefined;
  /** The HTTP method in upper case. */
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  /** The time of receipt, by the sandbox's clock. */
  readonly receivedAt: Date;
  /** The HTTP status of the answer. It is also the status of a fault. */
  readonly status: number;
  /** The fault that applied to the request. It is `undefined` if no fault applied. */
  readonly fault: SandboxFault | undefined;
}

/** An attempt to deliver a notification, and the answer. A dropped delivery counts as an attempt. */
export interface SandboxDelivery {
  /** The account whose record changed. It is `undefined` in a sandbox without accounts. */
  readonly account?: string | undefined;
  /** The event id of the notification. It is `undefined` if the notification has no event id. */
  readonly eventId: string | undefined;
  /** The topic of the endpoint that got the notification, such as `bookings`. */
  readonly topic: string;
  /** The URL with its query, which may hold a secret. */
  readonly url: string;
  /** The notification as it was sent. */
  readonly notification: unknown;
  /** The number of the attempt: 1 for the first attempt, 2 for the first retry. */
  readonly attempt: number;
  /** Whether the delivery is a repetition, made by `delivery.duplicates` or `redeliver`. */
  readonly duplicate: boolean;
  /** Whether the delivery was lost because of `delivery.drop`. The endpoint does not receive a lost delivery. */
  readonly dropped: boolean;
  /** The wait in ms before the first attempt, from `delivery.delay` and `delivery.duplicateAfter`. */
  readonly delay: number;
  /** The time of the attempt, by the sandbox's clock. */
  readonly sentAt: Date;
  /** The time in ms until the answer or the error; `undefined` during the attempt. */
  readonly duration: number | undefined;
  /** The status of the answer. Only 200 is success. It is `undefined` during the attempt, and if no answer came. */
  readonly status: number | undefined;
  /** The reason why there was no answer. */
  readonly error: string | undefined;
}

/** The argument of `observe`. */
export type SandboxObservation =
  | (SandboxRequest & {
      /** The API answered a request. */
      readonly kind: "request";
    })
  | (SandboxDelivery & {
      /** A delivery attempt has ended. */
      readonly kind: "delivery";
    });

/** The code of the booking, or the id of the listing, that a notification names. */
export function recordOf(notification: unknown): {
  readonly booking?: string | undefined;
  readonly listing?: string | undefined;
} {
  const { bookingCode, listingId } = Object(notification) as Readonly<Record<string, unknown>>;
  if (bookingCode !== undefined && bookingCode !== null) return { booking: String(bookingCode) };
  return listingId === undefined || listingId === null ? {} : { listing: String(listingId) };
}
