import { InvalidArgumentError } from "../../errors.ts";
import { Log } from "../../logger.ts";
import { checkNoUnknown } from "../../option-names.ts";
import type { EventStore } from "../event-store.ts";
import { MemoryStore } from "./memory-store.ts";

/** Options of {@link memoryStore}. */
export interface MemoryStoreOptions {
  /**
   * The maximum number of done events that the store keeps, to recognize repeated deliveries. Above this number, the
   * store deletes the oldest done event. The store never deletes waiting or parked events. Default 100,000.
   */
  readonly max?: number | undefined;
}

/**
 * Keeps events in the memory of this process, for tests and for trying things out. **All events are lost when the
 * process ends**, even if the handler has answered 200. If `NODE_ENV` is `production`, the first call of `memoryStore`
 * writes a warning to the console.
 *
 * @throws InvalidArgumentError if `max` is not a whole number, 1 or more
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

/** Warns only in production, because tests and development may lose events. */
function warnOnce(): void {
  if (warned || nodeEnv() !== "production") return;
  warned = true;
  new Log().warn(
    "memoryStore() forgets every event when the process ends. In production, use a persistent store, such as sqliteStore from stayhook/sqlite.",
  );
}

function nodeEnv(): string | undefined {
  try {
    const { Deno } = globalThis as unknown as { readonly Deno?: DenoPermissions };
    // Do not read `NODE_ENV` without the permission: Deno would prompt the user or throw.
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
