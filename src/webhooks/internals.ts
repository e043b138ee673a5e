import type { StayhookClient } from "../client/client.ts";
import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { EventStore, NewEvent } from "../stores/event-store.ts";
import type { Observation } from "./observability.ts";
import type { SnapshotOf } from "./processing/record.ts";

/** The parts of a handler that the reconciler and the console use. They are not public. */
export interface Internals {
  readonly client: StayhookClient<Booking, Listing>;
  /** `undefined` with `forwardTo`. */
  readonly store: EventStore<unknown> | undefined;
  /** Makes the snapshot of a record with the handler's `track` option. Throws what `track` throws. */
  readonly snapshotOf: SnapshotOf;
  /** How long the store keeps a record's snapshot, ms. */
  readonly recordRetention: number;
  /** The handler's `observe`. Does not throw. */
  readonly observe: (event: Observation) => void;
  readonly log: Log;
  /** Starts processing, unless `autoStart: false` or a serverless runtime says otherwise. */
  start(): void;
  /** Adds an event to the store and wakes the queue. */
  add(event: NewEvent): Promise<"added" | "duplicate" | "conflict">;
  /** Handles the due events. Does nothing if `autoStart` is `false`. */
  drainIfStarted(): Promise<void>;
}

// `require` loads another copy of the package than `import`. This symbol is the same in both.
const INTERNALS = Symbol.for("stayhook.internals");

export function withInternals<T extends object>(handler: T, internals: Internals): T {
  return Object.defineProperty(handler, INTERNALS, { value: internals });
}

/** `undefined` for anything that is not a handler. */
export function internalsOf(handler: unknown): Internals | undefined {
  if (typeof handler !== "object" || handler === null) return undefined;
  return (handler as { readonly [INTERNALS]?: Internals })[INTERNALS];
}

/**
 * The issues of an argument that must be a handler with an `EventStore`.
 *
 * @param why - why `forwardTo` does not suffice
 */
export function problemsWithHandler(handler: unknown, why: string): Issue[] {
  const internals = internalsOf(handler);
  if (internals?.store) return [];
  const notHandler = "must be a handler that createWebhookHandler has made";
  return [{ path: ["webhooks"], message: internals ? `must have an EventStore${why}` : notHandler }];
}
