import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import { now } from "../../clock.ts";
import { StayhookError } from "../../errors.ts";
import { isoTimestamp } from "../../models/dates.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Work, WorkContext, WorkResult } from "../../queue/work.ts";
import type { ClaimedEvent, FurtherEvent, StoredEvent, Write } from "../../stores/event-store.ts";
import {
  bookingRef,
  decisionDeadline,
  eventType,
  parseRef,
  type Subject,
  type WebhookCallbacks,
} from "../events.ts";
import { ownId } from "../own-ids.ts";
import { CollectedTimers, type FiredTimer, TimerRules, timerEvent, timerOf } from "../timers.ts";
import {
  type Comparison,
  compare,
  fetchFailure,
  type RecentAnswers,
  type SnapshotOf,
  type TrackedSnapshot,
} from "./record.ts";
import type { StatusSeen } from "./unknown-status.ts";

interface WorkOptions<B extends Booking, L extends Listing, Tx> extends CallbackOptions<B, L, Tx> {
  readonly skipUnchanged: boolean;
  readonly snapshotOf: SnapshotOf;
  readonly statusSeen: StatusSeen;
  /** Absent in `webhooks.process()`, which has no store, always reads the record, and adds no events. */
  readonly queued?:
    | {
        readonly recent: RecentAnswers;
        /** The wait before a recheck, ms. `false` turns rechecks off. */
        readonly recheckAfter: number | false;
        /** Reads an event from the store. */
        readonly find: (eventId: string) => Promise<StoredEvent | undefined>;
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
      return { state: "done", type, ...(await runCallback(options, claim, context, { type })) };
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
    this.#options.statusSeen(this.#subject.kind, record.status, this.#claim.ref);
    const isTimer = this.#claim.source === "timer";
    const type = isTimer ? this.#timerKey : eventType(this.#subject.kind, record.status);
    try {
      return await (isTimer ? this.#fire(record, type) : this.#handle(record, type));
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
    const called =
      changed || replayed || !onChangeOnly
        ? await runCallback(this.#options, this.#claim, this.#context, {
            type,
            status: record.status,
            [this.#subject.kind]: record,
            changed,
            changes,
            previous,
          })
        : undefined;
    const events = [...this.#recheck(record, changed), ...(called?.events ?? [])];
    return { state: "done", type, snapshot: { snapshot, changed }, ...called, events };
  }

  get #timerKey(): string {
    return TimerRules.keyOf(this.#subject.kind, timerOf(this.#claim).name);
  }

  /**
   * Runs the callback of a timer. A change of the record comes before it: its callback may move or clear the timer. The
   * timer writes no snapshot, so it hides no change from the reconciler.
   */
  async #fire(record: Booking | Listing, type: string): Promise<WorkResult<Tx>> {
    const timer = timerOf(this.#claim);
    const ownRef = this.#differingRef(record);
    if (ownRef !== undefined) return { state: "done", type, events: await this.#movedTo(ownRef, timer) };
    if (!this.#options.rules.handles(type)) {
      const error = new StayhookError(
        `\`on\` has no callback ${type} and no fallback. If an older version of the app runs, deploy the newer one.`,
      );
      return { state: "failed", reason: "callback", error, type };
    }
    const { changed, previous } = this.#compare(record);
    const waiting = changed && previous ? await this.#awaitRecheck(timer, type) : undefined;
    if (waiting) return waiting;
    const called = await runCallback(this.#options, this.#claim, this.#context, {
      type,
      status: record.status,
      [this.#subject.kind]: record,
      changed: false,
      changes: {},
      previous,
      timer,
    });
    return { state: "done", type, ...called };
  }

  /** Returns the same timer of the record `ref`, unless that record's timer was set later than this one. */
  async #movedTo(ref: string, { name, at }: FiredTimer): Promise<readonly FurtherEvent[]> {
    const event = timerEvent(ref, name, at, this.#claim.traceparent);
    const known = await this.#options.queued?.find(event.eventId);
    const isNewer = known !== undefined && known.receivedAt.getTime() > this.#claim.receivedAt;
    return isNewer ? [] : [{ event, replace: "moved" }];
  }

  /**
   * Makes the record's recheck due now, and lets the timer wait until that recheck has ended. The recheck's own JSON
   * lists the timers that have asked for it, because each timer asks only once for each time that was set.
   *
   * @returns `undefined` if the recheck that this timer has asked for is done or parked
   */
  async #awaitRecheck(timer: FiredTimer, type: string): Promise<WorkResult<Tx> | undefined> {
    const { ref, timestamp, receivedAt } = this.#claim;
    // A timer that was cleared and set to the same time again asks again.
    const mark = `${timestamp} ${receivedAt}`;
    const recheck = await this.#options.queued?.find(ownId("recheck", ref!));
    const told = JSON.parse(recheck?.notification ?? "{}") as RecheckJson;
    const due = recheck?.dueAt ?? undefined;
    const isAsked = told.timers?.[timer.name] === mark;
    if (isAsked && due === undefined) return undefined;
    const wait = isAsked && due !== undefined ? due.getTime() - now() : 0;
    // A recheck that has ended was about an earlier change, so its times say nothing about this one.
    const kept = due === undefined ? {} : told;
    const timers = { ...told.timers, [timer.name]: mark };
    return {
      state: "failed",
      type,
      reason: "unavailable",
      error: new Error("the record has changed, so its change is handled before the timer"),
      waitFor: Math.min(Math.max(wait, LEAST_WAIT), MOST_WAIT),
      events: isAsked ? [] : [recheckForTimer(this.#claim, { ...kept, timers }, recheck?.timestamp)],
    };
  }

  #compare(record: Booking | Listing): TrackedSnapshot & Comparison {
    const snapshot = this.#options.snapshotOf(this.#subject.kind, record);
    return { ...snapshot, ...compare(this.#claim.previous, snapshot) };
  }

  /**
   * Returns the ref with the booking code that the API returned, if a notification or a timer spells that code
   * differently. The refs of all other events already have the API's code.
   */
  #differingRef(record: Booking | Listing): string | undefined {
    const { source, ref, eventId } = this.#claim;
    const isFirst = source === "timer" || (source === "webhook" && !isFollowUp(eventId));
    if (!this.#options.queued || !isFirst || this.#subject.kind !== "booking") return undefined;
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
      timestamp: new Date(now() + recheckAfter).toISOString(),
      notification: JSON.stringify({ recheckOf: claim.eventId, ...told }),
      traceparent: claim.traceparent,
    },
    dueIn: recheckAfter,
    replace: "moved",
  };
}

/** The JSON that a recheck stores in the place of a notification. */
interface RecheckJson {
  /** The `timestamp` and `decideBy` of the notification that caused the recheck, ISO 8601. */
  readonly timestamp?: string;
  readonly decideBy?: string;
  /** By name: the time of a timer that has asked for the recheck, and when that timer was set. */
  readonly timers?: Readonly<Record<string, string>>;
}

/**
 * Returns a recheck that is due now, because a timer waits for it. Its timestamp differs from `known`, the timestamp of
 * the recheck that it replaces, because a store replaces no event by one with the same timestamp.
 */
function recheckForTimer(
  { ref, traceparent }: ClaimedEvent,
  told: RecheckJson,
  known: string | undefined,
): FurtherEvent {
  const time = now();
  const timestamp = new Date(time === Date.parse(known ?? "") ? time + 1 : time).toISOString();
  return {
    event: {
      eventId: ownId("recheck", ref!),
      ref,
      source: "recheck",
      topic: null,
      timestamp,
      notification: JSON.stringify({ timestamp, ...told }),
      traceparent,
    },
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

/** The shortest and the longest wait of a timer for a recheck, ms. A replay may end the recheck before its time. */
const [LEAST_WAIT, MOST_WAIT] = [100, 60_000];

interface CallbackOptions<B extends Booking, L extends Listing, Tx> {
  readonly client: StayhookClient<B, L>;
  readonly on: WebhookCallbacks<B, L, Tx>;
  readonly rules: TimerRules;
  /** Whether functions passed to `event.atomically` can run in the transaction that records the event as done. */
  readonly transactional: boolean;
  /** Why `event.timers` cannot be used; `undefined` if it can. */
  readonly noTimers: string | undefined;
}

type Callback = (event: unknown) => unknown;

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
async function runCallback<B extends Booking, L extends Listing, Tx>(
  options: CallbackOptions<B, L, Tx>,
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
      ...(timers && { timers }),
    });
  } finally {
    writes.close();
    timers?.close();
  }
  return { writes: writes.list, events: timers?.events ?? [], remove: timers?.remove };
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
  const told = JSON.parse(notification ?? "{}") as RecheckJson;
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
