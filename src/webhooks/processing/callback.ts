import type { StayhookClient } from "../../client/client.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking } from "../../models/booking.ts";
import type { Listing } from "../../models/listing.ts";
import { readTimestamp } from "../../models/timestamp.ts";
import type { WorkContext } from "../../queue/work.ts";
import type { ClaimedEvent, Write } from "../../stores/event-store.ts";
import type { WebhookCallbacks } from "../events.ts";

const DAY = 24 * 60 * 60_000;
/** How far a notification's timestamp may lie before and after its receipt to be believed, ms. */
const [MOST_BEFORE, MOST_AFTER] = [7 * DAY, 5 * 60_000];

export interface CallbackOptions<B extends Booking, L extends Listing, Tx> {
  readonly client: StayhookClient<B, L>;
  readonly on: WebhookCallbacks<B, L, Tx>;
  /** The store ends events in transactions, which the callback's writes can join. */
  readonly transactional: boolean;
}

type Callback = (event: unknown) => unknown;

/**
 * Runs the callback of an event, where there is one for its type.
 *
 * @param fields - the fields of the event beside those of every event
 * @returns the user's writes
 * @throws what the callback throws
 */
export async function runCallback<B extends Booking, L extends Listing, Tx>(
  options: CallbackOptions<B, L, Tx>,
  claim: ClaimedEvent,
  context: WorkContext,
  fields: { readonly type: string; readonly [field: string]: unknown },
): Promise<readonly Write<Tx>[]> {
  const { client, on, transactional } = options;
  const callback = callbackFor(on, fields.type);
  if (!callback) return [];
  const writes = new Writes<Tx>(transactional);
  const notification = notificationOf(claim);
  const { topic } = claim;
  try {
    await callback({
      ...fields,
      eventId: claim.eventId,
      timestamp: timestampOf(claim, notification),
      receivedAt: new Date(claim.receivedAt),
      source: claim.source,
      notification,
      ...(topic !== null && { topic }),
      ...(fields.type === "booking.Request" && { decideBy: decideByOf(claim, notification) }),
      attempt: claim.attempts,
      signal: context.signal,
      client,
      atomically: writes.add,
    });
  } finally {
    writes.close();
  }
  return writes.list;
}

/** When the event happened; when it was recorded, where its notification does not say. */
export function timestampOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date {
  // An event without a notification, such as one of the reconciler, has a timestamp of its own.
  const isUnknown = notification && readTimestamp(notification.timestamp) === undefined;
  return new Date(isUnknown ? claim.receivedAt : claim.timestamp);
}

/** When the platform expects a decision. The reconciler cannot know when the guest asked. */
export function decideByOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date | undefined {
  if (claim.source === "reconcile") return undefined;
  if (claim.source === "recheck") return decideByIn(claim.notification);
  const told = timestampOf(claim, notification).getTime();
  const { receivedAt } = claim;
  const isPlausible = told >= receivedAt - MOST_BEFORE && told <= receivedAt + MOST_AFTER;
  return new Date((isPlausible ? told : receivedAt) + DAY);
}

/** A recheck has no notification of its own: it carries the `decideBy` of the event that it comes from. */
function decideByIn(json: string | null): Date | undefined {
  const { decideBy } = JSON.parse(json ?? "{}") as { readonly decideBy?: string };
  return decideBy === undefined ? undefined : new Date(decideBy);
}

function notificationOf({ source, notification }: ClaimedEvent) {
  return source === "webhook" && notification !== null ? JSON.parse(notification) : undefined;
}

/** Own properties only: a status called `constructor` is just unknown. */
function callbackFor<B extends Booking, L extends Listing, Tx>(
  on: WebhookCallbacks<B, L, Tx>,
  type: string,
): Callback | undefined {
  const callbacks = on as Readonly<Record<string, Callback | undefined>>;
  const own = (name: string) => (Object.hasOwn(callbacks, name) ? callbacks[name] : undefined);
  return own(type) ?? own("fallback");
}

/** The user's writes that run together with the end of their event. */
class Writes<Tx> {
  readonly list: Write<Tx>[] = [];
  readonly #transactional: boolean;
  #open = true;

  constructor(transactional: boolean) {
    this.#transactional = transactional;
  }

  readonly add = (write: Write<Tx>): void => {
    if (!this.#transactional) {
      throw new StayhookError(
        "event.atomically() needs a store with transactions, such as sqliteStore or postgresStore. This event has none.",
      );
    }
    if (!this.#open) {
      throw new StayhookError(
        "event.atomically() was called after the callback had returned, when its event may be recorded as done. Await what the callback starts.",
      );
    }
    if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
    this.list.push(write);
  };

  close(): void {
    this.#open = false;
  }
}
