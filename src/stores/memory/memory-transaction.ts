// The writes of `event.atomically`, which the memory store runs in a transaction of the user's database.

import { isThenable } from "../../async.ts";

/** Runs `run` in a transaction of the user's database. */
export type RunTransaction<Tx> = (run: (tx: Tx) => void | Promise<void>) => unknown;

/** The key of a property that exists only in the type. */
declare const ran: unique symbol;

/** The result of the functions passed to `event.atomically`. It carries the type of their transaction, and no value. */
export interface Ran<Tx> {
  /** The transaction. The property exists only in the type. */
  readonly [ran]: Tx;
}

/**
 * Runs `run` in a transaction of the user's database, and returns its result. So TypeScript infers `Tx` from the method
 * of an ORM that calls `run` with its transaction.
 */
export type RunInTransaction<Tx> = (run: <T>(tx: T) => Promise<Ran<T>>) => PromiseLike<Ran<Tx>>;

/** Runs functions in order. Does not await a synchronous function, because a synchronous transaction would end. */
export function runInOrder(functions: readonly (() => unknown)[], from = 0): void | Promise<void> {
  for (let index = from; index < functions.length; index++) {
    const running = functions[index]!();
    if (isThenable(running)) return Promise.resolve(running).then(() => runInOrder(functions, index + 1));
  }
}
