import { accountOf } from "../../account.ts";
import { callersContext } from "../../async-context.ts";
import type { StayhookClient } from "../../client/client.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { WorkContext } from "../../queue/work.ts";
import type { EventOrigin } from "../../stores/event-states.ts";
import type { EventStore, FurtherEvent, Write } from "../../stores/event-store.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { parseRef } from "../refs.ts";
import { type EventStays, withStays } from "../stay-change.ts";
import { callbackFor } from "../timer-rules.ts";
import { CollectedTimers } from "../timers.ts";
import { notificationOf, timestampOf } from "./event-times.ts";

export interface CallbackOptions<Tx> {
  readonly client: StayhookClient<Booking, Listing>;
  /** The user's callbacks by type of event. */
  readonly on: object;
  /** Whether each event has an account. */
  readonly hasAccounts: boolean;
  /** Absent in `webhooks.process()`. Without a store, events have no timers, and no `atomically`. */
  readonly store?: Pick<EventStore<Tx>, "get" | "list" | "transactional"> | undefined;
}

/** What a callback asked the store to do with the end of its event. */
interface Called<Tx> {
  readonly writes: readonly Write<Tx>[];
  readonly events: readonly FurtherEvent[];
  readonly remove: readonly string[] | "timers" | undefined;
}

/**
 * Runs the callback of an event, if there is one for its type.
 *
 * @param fields - the fields that depend on the event's type
 * @param stays - what the event of a booking tells of its stay
 * @returns the functions that the callback passed to `event.atomically`, and the timers that it set; `undefined` if
 * there is no callback
 * @throws the error of the callback
 */
export async function runCallback<Tx>(
  { on, store, hasAccounts }: CallbackOptions<Tx>,
  claim: ClaimedEvent,
  context: WorkContext,
  fields: { readonly type: string; readonly [field: string]: unknown },
  stays?: EventStays,
): Promise<Called<Tx> | undefined> {
  const callback = callbackFor(on, fields.type);
  if (!callback) return undefined;
  const collected = new CollectedWrites<Tx>(store);
  const noTimers = store ? undefined : ": process() has no store, so it has no timers.";
  const timers =
    parseRef(claim.ref) &&
    new CollectedTimers(claim, on, (method) => collected.assertUsable(method, noTimers));
  const notification = notificationOf(claim);
  const { topic } = claim;
  const event = {
    ...fields,
    eventId: claim.eventId,
    ref: claim.ref,
    ...(hasAccounts && { account: accountOf(claim) }),
    timestamp: timestampOf(claim, notification),
    receivedAt: new Date(claim.receivedAt),
    source: claim.source as Exclude<EventOrigin, "thing">,
    notification,
    ...(topic !== null && { topic }),
    attempt: claim.attempts,
    signal: context.signal,
    atomically: collected.atomically,
    ...(timers && { timers }),
  };
  context.calling();
  try {
    await callback(stays ? withStays(event, stays) : event);
  } finally {
    collected.end();
  }
  const [events = [], remove] = [timers?.events, store && (await timers?.removal(store))];
  return { writes: collected.writes, events, remove };
}

/** Collects what a callback passes to `event.atomically` until it returns. */
export class CollectedWrites<Tx> {
  readonly writes: Write<Tx>[] = [];
  readonly #store: { readonly transactional?: true | undefined } | undefined;
  readonly #nameOf: (method: string) => string;
  #hasReturned = false;

  /** @param nameOf - names a method as the user called it */
  constructor(
    store: { readonly transactional?: true | undefined } | undefined,
    nameOf = (method: string) => `event.${method}()`,
  ) {
    this.#store = store;
    this.#nameOf = nameOf;
  }

  // An arrow function, so that callbacks can destructure it.
  readonly atomically = (write: Write<Tx>): void => {
    this.assertUsable("atomically", this.#store?.transactional ? undefined : NO_TRANSACTION);
    if (typeof write !== "function") throw new TypeError(`${this.#nameOf("atomically")} takes a function`);
    this.writes.push(inCallersContext(write));
  };

  /** @param refusal - why the method cannot be called for this event at all */
  assertUsable(method: string, refusal: string | undefined): void {
    const problem = refusal ?? (this.#hasReturned ? LATE : undefined);
    if (problem !== undefined) throw new StayhookError(`${this.#nameOf(method)}${problem}`);
  }

  /** Refuses all further calls, because the callback has returned. */
  end(): void {
    this.#hasReturned = true;
  }
}

const LATE =
  " was called after the callback had returned. The event may already be done. Await everything that the callback starts.";
const NO_TRANSACTION =
  " needs a store with transactions, such as sqliteStore or postgresStore. An event that process() handles has no transaction.";

/** A store may run the write from a timer, for writes of other events, too. */
function inCallersContext<Tx>(write: Write<Tx>): Write<Tx> {
  const context = callersContext();
  return context ? (tx) => context(() => write(tx)) : write;
}
