import { InvalidArgumentError } from "../errors.ts";
import { MemoryStore } from "./memory/store.ts";
import type { EventStore } from "./event-store.ts";

/** Options of {@link memoryStore}. */
export interface MemoryStoreOptions {
  /**
   * How many done events are remembered, so that a repeated delivery is known as one; the oldest are forgotten
   * first. Events that wait or are parked are not forgotten for it. Default 100,000.
   */
  readonly max?: number | undefined;
}

/**
 * Keeps events in this process's memory: for tests and for trying things out. **Everything is gone when the
 * process ends**, events that were answered 200 among it; it says so once on the console.
 *
 * @throws {@link InvalidArgumentError} where `max` is not a whole number, 1 or more
 *
 * @example
 * ```ts
 * const webhooks = createWebhookHandler({ client, store: memoryStore(), on });
 * ```
 */
export function memoryStore({ max = 100_000 }: MemoryStoreOptions = {}): EventStore {
  if (!Number.isSafeInteger(max) || max < 1) {
    throw new InvalidArgumentError({ path: ["max"], message: "must be a whole number, 1 or more" });
  }
  warnOnce();
  return new MemoryStore(max);
}

let warned = false;

function warnOnce(): void {
  if (warned) return;
  warned = true;
  console.warn(
    "stayhook: memoryStore() forgets every event when the process ends. Outside tests, use a store that keeps them, such as sqliteStore from stayhook/sqlite.",
  );
}
