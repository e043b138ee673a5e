// The event that a callback gets, from the type of its handler.

import type { StayhookClient } from "../client/client.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { WithAccount } from "./event-additions.ts";
import type { WebhookEvent } from "./events.ts";
import type { AccountFrom } from "./receiving/account.ts";

/** The parts of a handler's options that decide the types of its events. */
interface EventSource {
  /** The client of the handler. */
  readonly client: StayhookClient<Booking, Listing>;
  /** The store of the handler. */
  readonly store: object;
}

/** A handler, or an object with its type. */
interface EventCarrier {
  /** The type of the handler's events. */
  readonly "~event"?: unknown;
}

/** Options that find the account of a request. */
interface AccountSource {
  /** The option `accountFrom` of the handler. */
  readonly accountFrom: AccountFrom;
}

/** Options that choose the fields to compare. */
interface TrackSource {
  /** The option `track` of the handler. */
  readonly track: unknown;
}

type EventsOf<H> = H extends EventSource
  ? EventsOfClient<
      H["client"],
      H["store"] extends EventStore<infer Tx> ? Tx : never,
      TrackedBy<H>,
      H extends AccountSource ? WithAccount : unknown
    >
  : H extends EventCarrier
    ? NonNullable<H["~event"]>
    : never;

type EventsOfClient<C, Tx, F extends string, A> =
  C extends StayhookClient<infer B extends Booking, infer L extends Listing>
    ? WebhookEvent<B, L, Tx, F, A>
    : never;

/** The names of the fields that the option `track` chooses. */
type TrackedBy<H> = H extends TrackSource
  ? {
      [Kind in keyof H["track"]]: H["track"][Kind] extends (record: never, context: never) => infer Fields
        ? keyof Fields & string
        : never;
    }[keyof H["track"]]
  : never;

/**
 * The event that a handler passes to the callback for a type, for callbacks in files of their own. It has the fields of
 * the client's models, the fields that `track` chooses, and `atomically` as the store types it.
 *
 * @typeParam H - the type of the handler, or of an object with its `client` and `store`. TypeScript needs the object if
 * the handler's own `on` has the callback, because it infers the handler's type from its callbacks
 * @typeParam T - a key of `on`: a type of event, several types, `booking` or `listing`
 * @example
 * ```ts
 * export const settings = { client: new StayhookClient(), store: sqliteStore("events.db") };
 * // in another file
 * export const onConfirmed = ({ booking, atomically }: EventOf<typeof settings, "booking.Confirmed">) =>
 *   atomically((tx) => block(tx, booking));
 * // in the file of the handler
 * createWebhookHandler({ ...settings, on: { "booking.Confirmed": onConfirmed } });
 * ```
 */
export type EventOf<
  H extends EventSource | EventCarrier,
  T extends WebhookEvent["type"] | "booking" | "listing",
> = OfType<EventsOf<H>, T>;

type OfType<E, T> = E extends WebhookEvent
  ? T extends E["type"]
    ? E
    : T extends "booking" | "listing"
      ? OfKind<E, T>
      : never
  : never;

type OfKind<
  E extends WebhookEvent,
  K extends "booking" | "listing",
> = E["type"] extends `${K}.timer.${string}` ? never : E["type"] extends `${K}.${string}` ? E : never;
