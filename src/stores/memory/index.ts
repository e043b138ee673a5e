import { environmentVariable } from "../../environment.ts";
import { InvalidArgumentError } from "../../errors.ts";
import { Log } from "../../logger.ts";
import { checkNoUnknown } from "../../option-names.ts";
import type { EventStore } from "../event-store.ts";
import { MemoryStore as Model } from "./memory-store.ts";
import type { RunInTransaction, RunTransaction } from "./memory-transaction.ts";

/** Options of {@link memoryStore}. */
export interface MemoryStoreOptions<Tx = never> {
  /**
   * Runs a function in a transaction of your database, so that tests can run callbacks with `event.atomically`. The
   * transaction commits when the function returns or its promise resolves, and rolls back if it throws or rejects.
   * Default: none, and `event.atomically` is not available.
   *
   * The function returns a promise if one of the functions passed to `event.atomically` does. If your option returns
   * the function's result, as `(run) => db.transaction(run)` does, TypeScript infers `Tx`.
   */
  readonly transaction?: RunTransaction<Tx> | undefined;
}

/** The store that {@link memoryStore} makes. */
export interface MemoryStore<Tx = never> extends EventStore<Tx> {}

/**
 * Keeps events in the memory of this process, and runs the functions passed to `event.atomically` in a transaction of
 * your database. TypeScript infers the type of the transaction if `transaction` returns the result of `run`.
 *
 * @throws InvalidArgumentError if `transaction` is not a function
 *
 * @example
 * ```ts
 * const store = memoryStore({ transaction: (run) => db.transaction(run) });
 * ```
 */
// It has a second type parameter, so that TypeScript skips this signature for `memoryStore<DatabaseSync>(…)`.
export function memoryStore<Tx, _Inferred extends true>(options: {
  /** Runs a function in a transaction of your database, as {@link MemoryStoreOptions.transaction} says. */
  readonly transaction: RunInTransaction<Tx>;
}): MemoryStore<Tx>;
/**
 * Keeps events in the memory of this process, for tests and for trying things out. **All events are lost when the
 * process ends**, even if the handler has answered 200. If `NODE_ENV` is `production`, the first call of `memoryStore`
 * writes a warning to the console. The store keeps the last 100,000 done events, to recognize
 * repeated deliveries. Timers that have fired do not count.
 *
 * @throws InvalidArgumentError if `transaction` is not a function
 *
 * @example
 * ```ts
 * const webhooks = createWebhookHandler({ client, store: memoryStore(), on });
 * ```
 */
export function memoryStore<Tx = never>(options?: MemoryStoreOptions<Tx>): MemoryStore<Tx>;
export function memoryStore<Tx>(options: { readonly transaction?: unknown } = {}): MemoryStore<Tx> {
  checkNoUnknown(options, ["transaction"]);
  const { transaction } = options;
  if (transaction !== undefined && typeof transaction !== "function") {
    throw new InvalidArgumentError({ path: ["transaction"], message: "must be a function" });
  }
  warnOnce();
  return new Model(transaction as RunTransaction<Tx> | undefined);
}

let warned = false;

/** Warns only in production, because tests and development may lose events. */
function warnOnce(): void {
  if (warned || environmentVariable("NODE_ENV") !== "production") return;
  warned = true;
  new Log().warn(
    "memoryStore() forgets every event when the process ends. In production, use a persistent store, such as sqliteStore from stayhook/sqlite.",
  );
}
