import { accountOf } from "../../account.ts";
import { callersContext } from "../../async-context.ts";
import type { StayhookClient } from "../../client/client.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { WorkContext } from "../../queue/work.ts";
import type { EventStore, FurtherEvent, Write } from "../../stores/event-store.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { parseRef } from "../refs.ts";
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
 * @returns the functions that the callback passed to `event.atomically`, and the timers that it set; `undefined` if
 * there is no callback
 * @throws the error of the callback
 */
export async function runCallback<Tx>(
  { on, store, hasAccounts }: CallbackOptions<Tx>,
  claim: ClaimedEvent,
  context: WorkContext,
  fields: { readonly type: string; readonly [field: string]: unknown },
): Promise<Called<Tx> | undefined> {
  const callback = callbackFor(on, fields.type);
  if (!callback) return undefined;
  let hasReturned = false;
  /** @param refusal - why the method cannot be called for this event at all */
  const assertUsable = (method: string, refusal: string | undefined): void => {
    const problem = refusal ?? (hasReturned ? LATE : undefined);
    if (problem !== undefined) throw new StayhookError(`event.${method}()${problem}`);
  };
  const writes: Write<Tx>[] = [];
  const noTimers = store ? undefined : ": process() has no store, so it has no timers.";
  const timers =
    parseRef(claim.ref) && new CollectedTimers(claim, on, (method) => assertUsable(method, noTimers));
  const notification = notificationOf(claim);
  const { topic } = claim;
  context.calling();
  try {
    await callback({
      ...fields,
      eventId: claim.eventId,
      ref: claim.ref,
      ...(hasAccounts && { account: accountOf(claim) }),
      timestamp: timestampOf(claim, notification),
      receivedAt: new Date(claim.receivedAt),
      source: claim.source,
      notification,
      ...(topic !== null && { topic }),
      attempt: claim.attempts,
      signal: context.signal,
      atomically: (write: Write<Tx>): void => {
        assertUsable("atomically", store?.transactional ? undefined : NO_TRANSACTION);
        writes.push(inCallersContext(write));
      },
      ...(timers && { timers }),
    });
  } finally {
    hasReturned = true;
  }
  const [events = [], remove] = [timers?.events, store && (await timers?.removal(store))];
  return { writes, events, remove };
}

const LATE =
  " was called after the callback had returned. The event may already be done. Await everything that the callback starts.";
const NO_TRANSACTION =
  " needs a store with transactions, such as sqliteStore or postgresStore. An event that process() handles has no transaction.";

/** A store may run the write from a timer, for writes of other events, too. */
function inCallersContext<Tx>(write: Write<Tx>): Write<Tx> {
  if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
  const context = callersContext();
  return context ? (tx) => context(() => write(tx)) : write;
}
