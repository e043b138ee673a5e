// The types of `stayhook/stays`.

import type { LocalTimeOptions } from "../local-time.ts";
import type { BookingStay } from "../models/booking-stay.ts";
import type { Booking } from "../models/records.ts";
import type { Json } from "./ledger.ts";

/** The options of `hold`. */
export interface HoldOptions {
  /** When the hold begins. Default: at once. */
  readonly from?: Date | undefined;
  /** When the hold ends. Default: 30 days after the check-out, and then `end` is not called. */
  readonly until?: Date | undefined;
  /** What `begin` needs besides the stay: JSON up to 2 kB. If it changes while the hold is on, `begin` is called again. */
  readonly data?: Json | undefined;
}

/** The options of `once`. */
export interface OnceOptions {
  /** When it runs. */
  readonly at: Date;
  /**
   * It never runs at this time or later. If a stay is booked after `at`, it runs at once only with an `until` that has not
   * come. Default: a stay that is booked after `at` does not get it.
   */
  readonly until?: Date | undefined;
  /**
   * If the guest leaves the house between this time and `at`, it runs at once for that house: the stay is cancelled, moved
   * to another house or to other days, or gone. Default: it is dropped.
   */
  readonly owedFrom?: Date | undefined;
  /** What the function needs besides the stay: JSON up to 2 kB. */
  readonly data?: Json | undefined;
}

/** What `hold` returns, for the array that `want` returns. */
export interface Hold<H extends string = string> extends HoldOptions {
  /** The name of the hold. */
  readonly hold: H;
}

/** What `once` returns, for the array that `want` returns. */
export interface Once<O extends string = string> extends OnceOptions {
  /** The name of the once. */
  readonly once: O;
}

/** Whether there are accounts, as the option `accounts` says: `account` is then a text, and `undefined` otherwise. */
type Account<A> = A extends true ? string : undefined;

/** What `want` gets beside the stay: `WantContext<MyBooking>`, or with `accounts: true`, `WantContext<MyBooking, true>`. */
export interface WantContext<B extends Booking = Booking, A extends boolean = false> {
  /** The booking, as the platform tells it now. */
  readonly booking: B;
  /** The account of the booking, with `accounts: true`. */
  readonly account: Account<A>;
  /**
   * Returns the instant at which the clocks of the house show a time, as `localTime` does, in the zone that the handler's
   * option `timeZone` gives for the booking.
   *
   * @param day - `checkIn` or `checkOut` of the stay, or another `YYYY-MM-DD`
   * @param time - the time on the clock, such as `"15:00"`
   * @param offset - days, hours and minutes to add
   * @throws InvalidArgumentError if the booking has no time zone, or if an argument is wrong
   */
  at(day: string, time: string, offset?: LocalTimeOptions): Date;
}

/** The fields of all things that `apply` gets. */
export interface Thing<B extends Booking = Booking, A extends boolean = boolean> {
  /** The name that `want` gave it. */
  readonly name: string;
  /** The stay that it is for. For `end`, that is the stay of the last `begin` that was called. */
  readonly stay: BookingStay;
  /** The booking, as it was read now. It is `undefined` if the booking is gone, or if the platform did not answer. */
  readonly booking: B | undefined;
  /** The account of the booking, with `accounts: true`. */
  readonly account: Account<A>;
  /**
   * The id of this occurrence, for use as an idempotency key. A repeated call has the same id, and so have `begin` and `end` of
   * a hold. If a thing runs or begins anew, also for the same house and days, it has a new one.
   */
  readonly id: string;
  /** What `want` gave as `data`. */
  readonly data: Json | undefined;
  /** The values of the holds that are on for the same house, by name. */
  readonly values: Readonly<Record<string, Json | undefined>>;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Aborts when the attempt must stop: on a timeout, `close` or a lost lease. Pass it to `fetch`. */
  readonly signal: AbortSignal;
  /**
   * Runs the function `write` in the transaction that records the end of this call. Needs a store with transactions. Give
   * `tx` the type of the store's transaction.
   *
   * @example
   * ```ts
   * begin: ({ stay, atomically }) => atomically((tx: PostgresTransaction) => block(tx, stay)),
   * ```
   */
  atomically<Tx>(write: (tx: Tx) => unknown): void;
}

/** What `begin` and `end` of a hold get. */
export interface HoldThing<V extends Json = Json, B extends Booking = Booking, A extends boolean = boolean>
  extends Thing<B, A> {
  /** When the hold begins. It is `undefined` if `want` gave no `from`. */
  readonly from: Date | undefined;
  /** When the hold ends: by default, 30 days after the check-out. */
  readonly until: Date;
  /**
   * What `begin` last returned that was not `undefined`. It is `undefined` before the first call has ended, and so also after
   * a crash within `begin`. To give it a type, annotate the parameter: `HoldThing<string>`.
   */
  readonly value: V | undefined;
}

/** What the function of a once gets. */
export interface OnceThing<B extends Booking = Booking, A extends boolean = boolean> extends Thing<B, A> {
  /** The time that `want` gave. */
  readonly at: Date;
  /** The time from which it does not run any more, if `want` gave one. */
  readonly until: Date | undefined;
  /** Whether it runs because the guest left before `at`. */
  readonly isEarly: boolean;
}

/** What `begin` may return: JSON up to 2 kB, which later calls get as `value`, or nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function without `return` is a fine `begin`.
export type HoldValue = Json | undefined | void;

/** What a hold does. */
export interface HoldFunctions<B extends Booking = Booking, A extends boolean = boolean> {
  /**
   * Makes the hold exist. It is called again if the days or `data` change while the hold is on, and as long as it throws.
   *
   * @returns what later calls need, such as the id that a lock has given: JSON up to 2 kB
   */
  begin(thing: HoldThing<Json, B, A>): HoldValue | Promise<HoldValue>;
  /**
   * Ends what `begin` has made, or may have made. It is called again as long as it throws. If somebody discards an event of the
   * hold, nothing more of this occurrence is called, and so no `end`.
   */
  end(thing: HoldThing<Json, B, A>): unknown;
}

/** The options of `createStays`. */
export interface StaysOptions<
  H extends string = string,
  O extends string = string,
  B extends Booking = Booking,
  A extends boolean = boolean,
> {
  /** Whether the handler has `accountFrom`. The things then have an `account`. Default `false`. */
  readonly accounts?: A | undefined;
  /**
   * Says what a stay needs. It is asked whenever the booking is read, for a stay that holds, and must be pure: the same stay
   * and booking give the same things. What it no longer names ends, or is dropped.
   *
   * @param stay - the stay as the platform tells it now
   */
  want(stay: BookingStay, context: WantContext<B, A>): readonly (Hold<H> | Once<O>)[];
  /** What the things do: `{ begin, end }` for each name of a hold, and a function for each name of a once. */
  readonly apply: { readonly [Name in NoInfer<H>]: HoldFunctions<NoInfer<B>, NoInfer<A>> } & {
    readonly [Name in NoInfer<O>]: (thing: OnceThing<NoInfer<B>, NoInfer<A>>) => unknown;
  };
}

declare const bookings: unique symbol;

/** What `createStays` returns: the handler's option `stays`. */
export interface Stays<B extends Booking = Booking, A extends boolean = boolean> {
  /** Whether the things have an `account`, so that the handler needs `accountFrom`. */
  readonly accounts: A;
  /** The type of the bookings. Absent at run time. */
  readonly [bookings]?: (booking: B) => void;
}
