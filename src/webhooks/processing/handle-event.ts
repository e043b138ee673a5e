import { v5 } from "uuid";
import { pause } from "../../async.ts";
import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import { StayhookError } from "../../errors.ts";
import { isoTimestamp } from "../../models/dates.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Work, WorkContext, WorkResult } from "../../queue/work.ts";
import type { AddOptions, ClaimedEvent, NewEvent, Write } from "../../stores/event-store.ts";
import {
  bookingRef,
  decisionDeadline,
  eventType,
  parseRef,
  type Subject,
  type WebhookCallbacks,
} from "../events.ts";
import {
  type Comparison,
  compare,
  fetchFailure,
  type RecentAnswers,
  type SnapshotOf,
  type TrackedSnapshot,
} from "./record.ts";

interface WorkOptions<B extends Booking, L extends Listing, Tx> extends CallbackOptions<B, L, Tx> {
  readonly dispatch: "every" | "changed";
  readonly snapshotOf: SnapshotOf;
  /** Absent in `webhooks.process()`, which has no store, always reads the record, and adds no events. */
  readonly queued?: { readonly recent: RecentAnswers; readonly further: FurtherEvents } | undefined;
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
      const fields = type === "message" ? { type, ref: null } : { type };
      return { state: "done", type, writes: await runCallback(options, claim, context, fields) };
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
    const failure = fetchFailure(error);
    if (this.#claim.source !== "recheck") return { state: "failed", ...failure };
    const type = eventType(this.#subject.kind, this.#claim.previous?.status ?? "");
    return { state: "done", type, error, reason: failure.reason };
  }

  async #handle(record: Booking | Listing, type: string): Promise<WorkResult<Tx>> {
    const ownRef = this.#differingRef(record);
    if (ownRef !== undefined && (await this.#addFollowUp(ownRef))) return { state: "done", type };
    const { snapshot, changed, changes, previous } = this.#compare(record);
    const { source, replayed } = this.#claim;
    // A reconcile or recheck event of an unchanged record runs no callback: an earlier event has handled the record.
    const onChangeOnly = this.#options.dispatch === "changed" || source !== "webhook";
    const writes =
      changed || replayed || !onChangeOnly
        ? await runCallback(this.#options, this.#claim, this.#context, {
            type,
            status: record.status,
            [this.#subject.kind]: record,
            previousStatus: previous?.status,
            changed,
            changes,
            previous,
          })
        : [];
    if (!changed && !replayed && source === "webhook")
      await this.#options.queued?.further.recheck(this.#claim, this.#context.signal);
    return { state: "done", type, record: { snapshot, changed }, writes };
  }

  #compare(record: Booking | Listing): TrackedSnapshot & Comparison {
    const snapshot = this.#options.snapshotOf(this.#subject.kind, record);
    return { ...snapshot, ...compare(this.#claim.previous, snapshot) };
  }

  /** Returns the ref with the booking code that the API returned, if the event's ref spells that code differently. */
  #differingRef(record: Booking | Listing): string | undefined {
    const ref = this.#subject.kind === "booking" ? bookingRef((record as Booking).bookingCode) : null;
    return ref === null || ref === this.#claim.ref ? undefined : ref;
  }

  /** Adds a follow-up event with the given ref. Returns `false` if this event must not have a follow-up. */
  async #addFollowUp(ref: string): Promise<boolean> {
    const { queued } = this.#options;
    if (!queued || isFollowUp(this.#claim)) return false;
    await queued.further.followUp(this.#claim, ref, this.#context.signal);
    return true;
  }
}

/**
 * Whether an event is a follow-up event. Also returns `true` for reconcile events and rechecks: their ref already has
 * the code that the API returned.
 */
function isFollowUp({ source, eventId, ref, notification }: ClaimedEvent): boolean {
  if (source !== "webhook" || ref === null || notification === null) return true;
  const { eventId: first } = JSON.parse(notification) as { readonly eventId: unknown };
  return eventId === followUpId(String(first).toLowerCase(), ref);
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
  const { client, on, transactional } = options;
  const callback = callbackFor(on, fields.type);
  if (!callback) return [];
  const writes = new AtomicWrites<Tx>(transactional);
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

/** Returns the time at which the event happened. If the notification has no readable time, returns `receivedAt`. */
function timestampOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date {
  // An event without a notification, such as a reconcile event, keeps its own timestamp.
  const isUnknown = notification && isoTimestamp(notification.timestamp) === undefined;
  return new Date(isUnknown ? claim.receivedAt : claim.timestamp);
}

/** Returns the deadline for the host's decision, or `undefined` if it is unknown, as for a reconcile event. */
function decideByOf(claim: ClaimedEvent, notification = notificationOf(claim)): Date | undefined {
  if (claim.source === "reconcile") return undefined;
  if (claim.source === "recheck") return storedDecideBy(claim.notification);
  const told = timestampOf(claim, notification).getTime();
  return decisionDeadline(told, claim.receivedAt);
}

/** Reads the `decideBy` of the event that caused a recheck from the recheck's `notification`, which is JSON. */
function storedDecideBy(json: string | null): Date | undefined {
  const { decideBy } = JSON.parse(json ?? "{}") as { readonly decideBy?: string };
  return decideBy === undefined ? undefined : new Date(decideBy);
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

/** The UUIDv5 namespace for the ids of rechecks and follow-up events. */
const NAMESPACE = "0d0c6f3e-7a55-4a0b-9a43-6a1f3f0f5d27";
/** The wait before another try to add an event, ms. */
const ADD_AGAIN = 1000;
/** How many recheck ids this process remembers, so that a burst of notifications adds a recheck only once. */
const KNOWN_RECHECKS = 1000;

interface FurtherEventsOptions {
  /** Adds an event to the store and wakes the queue. */
  readonly add: (event: NewEvent, options?: AddOptions) => Promise<"added" | "duplicate" | "conflict">;
  /** Handles an event again. */
  readonly replay: (eventId: string) => Promise<unknown>;
  /** Called when the store has the follow-up event. */
  readonly onFollowUp: (eventId: string, followUpId: string) => void;
  /** The wait before a recheck, ms. `false` turns rechecks off. */
  readonly recheckAfter: number | false;
}

/** Adds rechecks, which read a record again. Adds a follow-up event if the API returns another booking code. */
export class FurtherEvents {
  readonly #options: FurtherEventsOptions;
  readonly #rechecks = new Set<string>();

  constructor(options: FurtherEventsOptions) {
    this.#options = options;
  }

  /** Schedules another read of the record, because the platform may notify before its API shows the change. */
  async recheck(claim: ClaimedEvent, signal: AbortSignal): Promise<void> {
    const { recheckAfter } = this.#options;
    if (recheckAfter === false || claim.ref === null) return;
    const eventId = idOf("recheck", claim.ref, Math.floor(claim.receivedAt / recheckAfter));
    if (this.#rechecks.has(eventId)) return;
    const event: NewEvent = {
      eventId,
      ref: claim.ref,
      source: "recheck",
      topic: null,
      timestamp: timestampOf(claim).toISOString(),
      notification: JSON.stringify({ recheckOf: claim.eventId, decideBy: decideByOf(claim) }),
      traceparent: claim.traceparent ?? null,
    };
    await this.#add(event, signal, { dueIn: recheckAfter });
    for (const oldest of this.#rechecks) {
      if (this.#rechecks.size < KNOWN_RECHECKS) break;
      this.#rechecks.delete(oldest);
    }
    this.#rechecks.add(eventId);
  }

  /** Adds an event with the notification of `claim`. `ref` has the booking code that the API returned. */
  async followUp(claim: ClaimedEvent, ref: string, signal: AbortSignal): Promise<void> {
    const eventId = followUpId(claim.eventId, ref);
    const { source, topic, notification, traceparent = null } = claim;
    const event = {
      eventId,
      ref,
      source,
      topic,
      timestamp: timestampOf(claim).toISOString(),
      notification,
      traceparent,
    };
    const added = await this.#add(event, signal);
    if (added !== "added" && claim.replayed) await this.#options.replay(eventId);
    this.#options.onFollowUp(claim.eventId, eventId);
  }

  /**
   * Adds an event. Tries again while the store fails, so that the attempt does not fail. Tries once even if the
   * signal has aborted, because the attempt may still end in time. If the store fails after the abort, throws: the
   * attempt must not succeed without the added event.
   */
  async #add(event: NewEvent, signal: AbortSignal, options?: AddOptions) {
    for (;;) {
      try {
        return await this.#options.add(event, options);
      } catch {
        signal.throwIfAborted();
        await pause(ADD_AGAIN, signal);
      }
    }
  }
}

/** Returns the id of the follow-up event of `eventId` that has the ref `ref`. */
function followUpId(eventId: string, ref: string): string {
  return idOf("follow-up", eventId, ref);
}

function idOf(...parts: readonly (string | number)[]): string {
  return v5(JSON.stringify(parts), NAMESPACE);
}
