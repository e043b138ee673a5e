// What an attempt asks of the engine, and what it records.

import type { BookingStay } from "../models/booking-stay.ts";
import type { Booking } from "../models/records.ts";
import type { FurtherEvent } from "../stores/event-store.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import type { Act, Entry, Ledger } from "./ledger.ts";

/** What an attempt knows of a booking. */
export interface Reading {
  readonly claim: ClaimedEvent;
  /** The booking as it was read. It is `undefined` if it is gone, or if it was not read. */
  readonly booking: Booking | undefined;
  /** The stay that the handler knew before. */
  readonly from: BookingStay | undefined;
  /** The stay that holds now. */
  readonly to: BookingStay | undefined;
  readonly timeZone: string | undefined;
  readonly account: string | undefined;
  /**
   * The claim time of the event that caused the read, by the store's clock, if the read serves this event, too. It is
   * `undefined` if the event has caused the read itself.
   */
  readonly readFor?: number | undefined;
  /** Why nobody knows what the house of `listingId` needs, or, without a `listingId`, any house. */
  readonly problem?: { readonly error: unknown; readonly listingId?: number | undefined } | undefined;
}

/** What the outcome of an attempt records of a plan. */
export interface LedgerChanges {
  /** The new ledger. `undefined` keeps the old one. An empty text deletes it. */
  readonly ledger?: string | undefined;
  readonly events?: readonly FurtherEvent[] | undefined;
  readonly remove?: readonly string[] | undefined;
}

/** A plan that an attempt has made. */
export interface Planned {
  readonly ledger: Ledger;
  readonly now: number;
  /** Whether the plan differs from what the store has, so that it must be recorded. */
  readonly isNew: boolean;
  readonly changes: LedgerChanges;
  /** Why nobody knows what the stay needs. */
  readonly problem?: { readonly error: unknown } | undefined;
}

/** What an event of a thing does. Without a `call`, it only records changes. */
export type Step = Changes | ThingCall;

interface Changes {
  readonly call?: undefined;
  readonly changes: LedgerChanges;
  /** Whether the event acts after others that are due, which `changes` puts before it. */
  readonly isLater?: true | undefined;
}

export interface ThingCall {
  readonly act: Act;
  readonly entry: Entry;
  readonly call: (thing: object) => unknown;
  /** The fields of the thing that the call gets, without those of the attempt. */
  readonly fields: object;
  /** The ledger that every outcome of the attempt records once the call has begun. */
  readonly during: string;
  /** @throws InvalidArgumentError if `begin` returned what a ledger does not keep */
  readonly after: (returned: unknown) => LedgerChanges;
}
