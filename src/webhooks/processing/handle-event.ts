import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import { StayhookError } from "../../errors.ts";
import { isoTimestamp } from "../../models/dates.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Work, WorkContext, WorkResult } from "../../queue/work.ts";
import type { ClaimedEvent, FurtherEvent, Write } from "../../stores/event-store.ts";
import {
  bookingRef,
  decisionDeadline,
  eventType,
  parseRef,
  type Subject,
  type WebhookCallbacks,
} from "../events.ts";
import { ownId } from "../own-ids.ts";
import {
  type Comparison,
  compare,
  fetchFailure,
  type RecentAnswers,
  type SnapshotOf,
  type TrackedSnapshot,
} from "./record.ts";

interface WorkOptions<B extends Booking, L extends Listing, Tx> extends CallbackOptions<B, L, Tx> {
  readonly skipUnchanged: boolean;
  readonly snapshotOf: SnapshotOf;
  /** Absent in `webhooks.process()`, which has no store, always reads the record, and adds no events. */
  readonly queued?:
    | {
        readonly recent: RecentAnswers;
        /** The wait before a recheck, ms. `false` turns rechecks off. */
        readonly recheckAfter: number | false;
      }
    | undefined;
}

/** Makes the function that handles one event: it reads the record, then runs the callback for the record's status. */
export function createWork<B extends Booking, L extends Listing, Tx>(
  options: WorkOptions<B, L, Tx>,
): Work<Tx> {
  return async (claim, context) => {
    const subject = parseRef(claim.ref);
    if (subject) return await new RecordWork(options, claim, context, subject).run();
    const type = claim.topic === "messages" ? "message" : "unknown";
    try {
      return { state: "done", type, writes: await runCallback(options, claim, context, { type }) };
    } catch (error) {
      return { state: "failed", reason: "callback", error, type };
    }
  };
}

/** One attempt at an event that refers to a record. */
class RecordWork<B extends Booking, L extends Listing, Tx> {
  readonly #options: WorkOptions<B, L, Tx>;
  readonly #claim: ClaimedEvent;
  readonly #context: WorkContext;
  readonly #subject: Subject;

  constructor(options: WorkOptions<B, L, Tx>, claim: ClaimedEvent, context: WorkContext, subject: Subject) {
    this.#options = options;
    this.#claim = claim;
    this.#context = context;
    this.#subject = subject;
  }

  async run(): Promise<WorkResult<Tx>> {
    const recent = this.#options.queued?.recent;
    let record = this.#recentRecord();
    if (!record) {
      try {
        record = await this.#read();
      } catch (error) {
        recent?.drop(this.#claim.ref);
        return this.#readFailed(error);
      }
      recent?.keep(this.#claim, record);
    }
    this.#context.answered();
    const type = eventType(this.#subject.kind, record.status);
    try {
      return await this.#handle(record, type);
    } catch (error) {
      recent?.drop(this.#claim.ref);
      return { state: "failed", reason: "callback", error, type };
    }
  }

  /** Returns a recently read record, unless another process has stored a different snapshot since the read. */
  #recentRecord(): Booking | Listing | undefined {
    const record = this.#options.queued?.recent.find(this.#claim);
    try {
      return record && (!this.#claim.previous || !this.#compare(record).changed) ? record : undefined;
    } catch {
      return undefined;
    }
  }

  #read(): Promise<Booking | Listing> {
    const { bookings, listings } = this.#options.client;
    // Do not retry in the client: the queue retries, and its circuit breaker must see each failure at once.
    const once = { signal: this.#context.signal, maxRetries: 0 };
    return this.#subject.kind === "booking"
      ? bookings.get(this.#subject.bookingCode, once)
      : listings.get(this.#subject.listingId, once);
  }

  #readFailed(error: unknown): WorkResult<Tx> {
    if (error instanceof ResponseValidationError) this.#context.answered();
    return { state: "failed", ...fetchFailure(error) };
  }

  async #handle(record: Booking | Listing, type: string): Promise<WorkResult<Tx>> {
    const ownRef = this.#differingRef(record);
    if (ownRef !== undefined) return { state: "done", type, events: [followUpOf(this.#claim, ownRef)] };
    const { snapshot, changed, changes, previous } = this.#compare(record);
    const { source, replayed } = this.#claim;
    // A reconcile or recheck event of an unchanged record runs no callback: an earlier event has handled the record.
    const onChangeOnly = this.#options.skipUnchanged || source !== "webhook";
    const writes =
      changed || replayed || !onChangeOnly
        ? await runCallback(this.#options, this.#claim, this.#context, {
            type,
            status: record.status,
            [this.#subject.kind]: record,
            changed,
            changes,
            previous,
          })
        : [];
    const events = this.#recheck(record, changed);
    return { state: "done", type, snapshot: { snapshot, changed }, writes, events };
  }

  #compare(record: Booking | Listing): TrackedSnapshot & Comparison {
    const snapshot = this.#options.snapshotOf(this.#subject.kind, record);
    return { ...snapshot, ...compare(this.#claim.previous, snapshot) };
  }

  /**
   * Returns the ref with the booking code that the API returned, if a notification spells that code differently. The
   * refs of all other events already have the API's code.
   */
  #differingRef(record: Booking | Listing): string | undefined {
    const { source, ref, eventId } = this.#claim;
    const isFirst = this.#options.queued && source === "webhook" && !isFollowUp(eventId);
    if (!isFirst || this.#subject.kind !== "booking") return undefined;
    const own = bookingRef((record as Booking).bookingCode);
    return own === ref ? undefined : own;
  }

  /**
   * Schedules another read of the record, because the platform may notify before its API shows the change. A booking
   * that has only been begun counts as unchanged.
   */
  #recheck(record: Booking | Listing, changed: boolean): readonly FurtherEvent[] {
    const { source, replayed, previous } = this.#claim;
    const { recheckAfter = false } = this.#options.queued ?? {};
    const isBegun = record.status === "Initiated" && previous === undefined;
    if (recheckAfter === false || source !== "webhook" || replayed || (changed && !isBegun)) return [];
    return [recheckOf(this.#claim, recheckAfter)];
  }
}

/**
 * Returns the event that reads the record again after `recheckAfter` ms. Each notification moves the record's recheck,
 * so that the second look comes this long after the last notification.
 */
function recheckOf(claim: ClaimedEvent, recheckAfter: number): FurtherEvent {
  const told = { timestamp: timestampOf(claim), decideBy: decideByOf(claim) };
  return {
    event: {
      eventId: ownId("recheck", claim.ref!),
      ref: claim.ref,
      source: "recheck",
      topic: null,
      timestamp: new Date(Date.now() + recheckAfter).toISOString(),
      notification: JSON.stringify({ recheckOf: claim.eventId, ...told }),
      traceparent: claim.traceparent,
    },
    dueIn: recheckAfter,
    replace: "moved",
  };
}

/** Returns an event with the notification of `claim`. `ref` has the booking code that the API returned. */
function followUpOf(claim: ClaimedEvent, ref: string): FurtherEvent {
  const { source, topic, notification, traceparent } = claim;
  const timestamp = timestampOf(claim).toISOString();
  const eventId = followUpId(claim.eventId);
  return {
    event: { eventId, ref, source, topic, timestamp, notification, traceparent },
    // A replay handles the follow-up again, too.
    replace: claim.replayed ? "ended" : undefined,
  };
}

/** Returns the id of the event that follows a notification with another spelling of its booking code. */
export function followUpId(eventId: string): string {
  return ownId("follow-up", eventId);
}

function isFollowUp(eventId: string): boolean {
  return eventId.startsWith(ownId("follow-up", ""));
}

interface CallbackOptions<B extends Booking, L extends Listing, Tx> {
  readonly client: StayhookClient<B, L>;
  readonly on: WebhookCallbacks<B, L, Tx>;
  /** Whether functions passed to `event.atomically` can run in the transaction that records the event as done. */
  readonly transactional: boolean;
}

type Callback = (event: unknown) => unknown;

/**
 * Runs the callback of an event, if there is one for its type.
 *
 * @param fields - the fields that depend on the event's type
 * @returns the functions that the callback passed to `event.atomically`
 * @throws the error of the callback
 */
async function runCallback<B extends Booking, L extends Listing, Tx>(
  options: CallbackOptions<B, L, Tx>,
  claim: ClaimedEvent,
  context: WorkContext,
  fields: { readonly type: string; readonly [field: string]: unknown },
): Promise<readonly Write<Tx>[]> {
  const { on, transactional } = options;
  const callback = callbackFor(on, fields.type);
  if (!callback) return [];
  const writes = new AtomicWrites<Tx>(transactional);
  const notification = notificationOf(claim);
  const { topic } = claim;
  try {
    await callback({
      ...fields,
      eventId: claim.eventId,
      ref: claim.ref,
      timestamp: timestampOf(claim, notification),
      receivedAt: new Date(claim.receivedAt),
      source: claim.source,
      notification,
      ...(topic !== null && { topic }),
      ...(fields.type === "booking.Request" && { decideBy: decideByOf(claim, notification) }),
      attempt: claim.attempts,
      signal: context.signal,
      atomically: writes.add,
    });
  } finally {
    writes.close();
  }
  return writes.list;
}

/** Returns the time at which the event happened. If the notification has no readable time, returns `receivedAt`. */
function timestampOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date {
  if (claim.source === "recheck") return toldBy(claim).timestamp;
  // An event without a notification, such as a reconcile event, keeps its own timestamp.
  const isUnknown = notification && isoTimestamp(notification.timestamp) === undefined;
  return new Date(isUnknown ? claim.receivedAt : claim.timestamp);
}

/** Returns the deadline for the host's decision, or `undefined` if it is unknown, as for a reconcile event. */
function decideByOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date | undefined {
  if (claim.source === "reconcile") return undefined;
  if (claim.source === "recheck") return toldBy(claim).decideBy;
  const told = timestampOf(claim, notification).getTime();
  return decisionDeadline(told, claim.receivedAt);
}

/** Reads the times of the notification that caused a recheck from the recheck's own JSON. */
function toldBy({ notification, timestamp }: ClaimedEvent) {
  const told = JSON.parse(notification ?? "{}") as {
    readonly timestamp?: string;
    readonly decideBy?: string;
  };
  return {
    timestamp: new Date(told.timestamp ?? timestamp),
    decideBy: told.decideBy === undefined ? undefined : new Date(told.decideBy),
  };
}

function notificationOf({ source, notification }: ClaimedEvent) {
  return source === "webhook" && notification !== null ? JSON.parse(notification) : undefined;
}

/** Reads own properties only, because `checkOptions` does not check inherited properties. */
function callbackFor<B extends Booking, L extends Listing, Tx>(
  on: WebhookCallbacks<B, L, Tx>,
  type: string,
): Callback | undefined {
  const callbacks = on as Readonly<Record<string, Callback | undefined>>;
  const own = (name: string) => (Object.hasOwn(callbacks, name) ? callbacks[name] : undefined);
  return own(type) ?? own("fallback");
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
    this.list.push(write);
  };

  close(): void {
    this.#open = false;
  }
}
