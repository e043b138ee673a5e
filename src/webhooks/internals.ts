// What other folders may use of a handler. Users see none of it.

import type { StayhookClient } from "../client/client.ts";
import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { Topic } from "../models/topics.ts";
import type { Gates } from "../queue/gates.ts";
import type { Backoff } from "../queue/work.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { AddAnswer } from "../stores/store-steps.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import type { Observation } from "./observability.ts";
import type { GoneWitness } from "./processing/gone-witness.ts";
import type { StatusSeen } from "./processing/read-warnings.ts";
import type { Refusals } from "./processing/refusals.ts";
import type { LookAt } from "./processing/snapshots.ts";
import type { AccountFrom } from "./receiving/account.ts";

/** The members of Node's `Server` that the handler uses. */
export interface ClosableServer {
  readonly listening: boolean;
  getConnections(told: (error: Error | null, count: number) => void): unknown;
  once(event: "close", closed: () => void): unknown;
}

/** The parts of a handler that the reconciler and the console use. They are not public. */
export interface Internals {
  readonly client: StayhookClient<Booking, Listing>;
  /** `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly store: EventStore<unknown> | undefined;
  /** Where a request names its account. It is `undefined` if there is one account. */
  readonly accountFrom?: AccountFrom | undefined;
  /** Makes a record's snapshot as the options `track` and `timeZone` say. */
  readonly lookAt: LookAt;
  /** The topics whose events the handler needs. */
  readonly topics: readonly Topic[];
  /** Warns once about each status that this version does not know. */
  readonly statusSeen: StatusSeen;
  /** Tells whether the platform is out of reach. It is `undefined` if the handler has no `store`. */
  readonly gates: Gates | undefined;
  /** Tells whether a record that is not found is gone. It is `undefined` if the handler has no `store`. */
  readonly goneWitness: GoneWitness | undefined;
  /** Remembers since when a known record is refused. It is `undefined` if the handler has no `store`. */
  readonly refusals: Refusals | undefined;
  readonly backoff: Backoff;
  /** How long an event stays leased after its process has died, ms. */
  readonly leaseDuration: number;
  /** How long the store keeps a record's snapshot, ms. */
  readonly snapshotRetention: number;
  /** Passes an observation to the handler's `observe` and `telemetry`. Never throws. */
  readonly observe: (event: Observation) => void;
  readonly log: Log;
  /** Starts processing. Does nothing if `autoStart` is `false` or `processing` is `inline`. */
  start(): void;
  /** Whether this process handles due events now. */
  handlesEvents(): boolean;
  /** Adds an event to the store, with its trace, and wakes the queue. */
  add(event: NewEvent): Promise<AddAnswer>;
  /** Tells the handler which server a request came from. `close` waits until a closed server has answered. */
  serves(server: ClosableServer): void;
  /** Handles the due events. Does nothing if `autoStart` is `false`. */
  drainIfStarted(): Promise<void>;
}

// `import` and `require` load separate copies of the package. `Symbol.for` gives the same symbol to each copy.
const INTERNALS = Symbol.for("stayhook.internals");

export function withInternals<T extends object>(handler: T, internals: Internals): T {
  return Object.defineProperty(handler, INTERNALS, { value: internals });
}

/** Returns `undefined` if `createWebhookHandler` did not make `handler`. */
export function internalsOf(handler: unknown): Internals | undefined {
  if (typeof handler !== "object" || handler === null) return undefined;
  return (handler as { readonly [INTERNALS]?: Internals })[INTERNALS];
}

/**
 * Returns the issues of an argument that must be a handler with an `EventStore`.
 *
 * @param why - the text after "must have an EventStore": the reason why a handler with `forwardTo` cannot be used
 */
export function problemsWithHandler(handler: unknown, why: string): Issue[] {
  const internals = internalsOf(handler);
  if (internals?.store) return [];
  const notHandler = "must be a handler from createWebhookHandler";
  return [{ path: ["webhooks"], message: internals ? `must have an EventStore${why}` : notHandler }];
}
