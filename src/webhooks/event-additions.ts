// What a store with transactions and the option `accountFrom` add to events.

import type { SynchronousTransaction } from "../stores/event-store.ts";
import type { AccountFrom } from "./receiving/account.ts";

/** Detects `any`. A transaction has the type `any` if the types of the database's client are not installed. */
type IsAny<T> = 0 extends 1 & T ? true : false;

type Synchronous<R> =
  R extends PromiseLike<unknown> ? "remove async: the writes of this store are synchronous" : R;

/**
 * The method that events have if the store has transactions.
 *
 * @typeParam Tx - the store's transaction
 */
export interface Transactional<Tx> {
  /**
   * Runs the function `write` in the transaction that records this event as done. The database commits the changes of
   * `write` and the event's new state together, or neither of them. `write` runs after the callback has returned. If
   * the commit fails, `write` runs again. If `write` throws, the attempt fails. If you call `atomically` several
   * times, the functions run in the order of the calls.
   */
  readonly atomically: IsAny<Tx> extends true
    ? (write: (tx: Tx) => unknown) => void
    : keyof SynchronousTransaction extends keyof Tx
      ? <R>(write: (tx: Tx) => Synchronous<R>) => void
      : (write: (tx: Tx) => unknown) => void;
}

/** Adds `atomically` to an event if the store has transactions. If the store has none, `Tx` is `never`. */
export type Writing<Tx> = [Tx] extends [never] ? unknown : Transactional<Tx>;

/**
 * The fields that the option `accountFrom` adds to events. For options of the type `WebhookHandlerOptions`, nobody knows
 * whether they have an `accountFrom`.
 */
export type AccountField<A> = [A] extends [undefined]
  ? unknown
  : [AccountFrom] extends [A]
    ? unknown
    : WithAccount;

/** Whether a handler has `accountFrom`. For options of the type `WebhookHandlerOptions`, nobody knows. */
export type HasAccounts<A> = [A] extends [undefined]
  ? false
  : [AccountFrom | undefined] extends [A]
    ? false
    : true;

/**
 * Adds `account` to an event, for a callback in another file of an app with `accountFrom`.
 *
 * @typeParam E - an event, such as `BookingEvent<"Confirmed">`
 * @example
 * ```ts
 * export const onConfirmed = ({ account, booking }: WithAccount<BookingEvent<"Confirmed">>) => block(account, booking);
 * ```
 */
export type WithAccount<E = unknown> = E & {
  /** The account that the notification was sent for, as `accountFrom` found it. */
  readonly account: string;
};
