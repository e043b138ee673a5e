import { InvalidArgumentError } from "../../errors.ts";
import { Log } from "../../logger.ts";
import { checkNoUnknown } from "../../option-names.ts";
import type { EventStore } from "../event-store.ts";
import { MemoryStore } from "./memory-store.ts";

/** Options of {@link memoryStore}. */
export interface MemoryStoreOptions {
  /**
   * How many done events the store keeps, so that it knows a repeated delivery. It forgets the oldest ones first,
   * and never an event that waits or is parked. Default 100,000.
   */
  readonly max?: number | undefined;
}

/**
 * Keeps events in this process's memory: for tests and for trying things out. **All events are gone when the process
 * ends**, also events that were answered 200. The first store that is made where `NODE_ENV` is `production` writes a
 * warning to the console.
 *
 * @throws InvalidArgumentError where `max` is not a whole number, 1 or more
 *
 * @example
 * ```ts
 * const webhooks = createWebhookHandler({ client, store: memoryStore(), on });
 * ```
 */
export function memoryStore(options: MemoryStoreOptions = {}): EventStore {
  checkNoUnknown(options, ["max"]);
  const { max = 100_000 } = options;
  if (!Number.isSafeInteger(max) || max < 1) {
    throw new InvalidArgumentError({ path: ["max"], message: "must be a whole number, 1 or more" });
  }
  warnOnce();
  return new MemoryStore(max);
}

let warned = false;

/** Only in production: in tests and in development the store is meant to forget. */
function warnOnce(): void {
  if (warned || nodeEnv() !== "production") return;
  warned = true;
  new Log().warn(
    "memoryStore() forgets every event when the process ends. In production, use a store that keeps them, such as sqliteStore from stayhook/sqlite.",
  );
}

function nodeEnv(): string | undefined {
  try {
    const { Deno } = globalThis as unknown as { readonly Deno?: DenoPermissions };
    // Without the permission, Deno asks its user or throws.
    const permission = Deno?.permissions.querySync({ name: "env", variable: "NODE_ENV" });
    if (permission && permission.state !== "granted") return undefined;
    // Not all runtimes have a `process`.
    return globalThis.process?.env?.NODE_ENV;
  } catch {
    return undefined;
  }
}

interface DenoPermissions {
  readonly permissions: {
    querySync(permission: { readonly name: "env"; readonly variable: string }): { readonly state: string };
  };
}
