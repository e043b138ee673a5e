import { accountOf } from "../../account.ts";
import { callersContext } from "../../async-context.ts";
import type { StayhookClient } from "../../client/client.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { WorkContext } from "../../queue/work.ts";
import type { EventStore, FurtherEvent, Write } from "../../stores/event-store.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { parseRef } from "../refs.ts";
import { CollectedTimers, callbackFor, type TimerRules } from "../timers.ts";
import { notificationOf, timestampOf } from "./event-times.ts";

export interface CallbackOptions<Tx> {
  readonly client: StayhookClient<Booking, Listing>;
  /** The user's callbacks by type of event. */
  readonly on: object;
  readonly rules: TimerRules;
  /** Whether each event has an account. */
  readonly hasAccounts: boolean;
  /** Whether functions passed to `event.atomically` can run in the transaction that records the event as done. */
  readonly transactional: boolean;
  /** Why `event.timers` cannot be used; `undefined` if it can. */
  readonly noTimers: string | undefined;
  /** Lists events of the store. Absent if `event.timers` cannot be used. */
  readonly list?: EventStore<Tx>["list"] | undefined;
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
  options: CallbackOptions<Tx>,
  claim: ClaimedEvent,
  context: WorkContext,
  fields: { readonly type: string; readonly [field: string]: unknown },
): Promise<Called<Tx> | undefined> {
  const { on, rules, transactional } = options;
  const callback = callbackFor(on, fields.type);
  if (!callback) return undefined;
  const writes = new AtomicWrites<Tx>(transactional);
  const timers = parseRef(claim.ref) && new CollectedTimers(claim, rules, options.noTimers);
  const notification = notificationOf(claim);
  const { topic } = claim;
  context.calling();
  try {
    await callback({
      ...fields,
      eventId: claim.eventId,
      ref: claim.ref,
      ...(options.hasAccounts && { account: accountOf(claim) }),
      timestamp: timestampOf(claim, notification),
      receivedAt: new Date(claim.receivedAt),
      source: claim.source,
      notification,
      ...(topic !== null && { topic }),
      attempt: claim.attempts,
      signal: context.signal,
      atomically: writes.add,
      ...(timers && { timers }),
    });
  } finally {
    writes.close();
    timers?.close();
  }
  const { list = async () => [] } = options;
  return { writes: writes.list, events: timers?.events ?? [], remove: await timers?.removal({ list }) };
}

/** The functions that a callback passes to `event.atomically`. */
class AtomicWrites<Tx> {
  readonly list: Write<Tx>[] = [];
  readonly #transactional: boolean;
  #open = true;

  constructor(transactional: boolean) {
    this.#transactional = transactional;
  }

  readonly add = (write: Write<Tx>): void => {
    if (!this.#transactional) {
      throw new StayhookError(
        "event.atomically() needs a store with transactions, such as sqliteStore or postgresStore. An event that process() handles has no transaction.",
      );
    }
    if (!this.#open) {
      throw new StayhookError(
        "event.atomically() was called after the callback had returned. The event may already be done. Await everything that the callback starts.",
      );
    }
    if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
    // A store may run the write from a timer, for writes of other events, too.
    const context = callersContext();
    this.list.push(context ? (tx) => context(() => write(tx)) : write);
  };

  close(): void {
    this.#open = false;
  }
}
