import { accountOf } from "../../account.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import { now } from "../../clock.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import { GONE } from "../../models/statuses.ts";
import { isLastAttempt } from "../../queue/retries.ts";
import type { Policy, Work, WorkContext, WorkFailure, WorkResult } from "../../queue/work.ts";
import type { FurtherEvent } from "../../stores/event-store.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import type { ClaimedEvent, StoredEvent } from "../../stores/stored-event.ts";
import { isOwnId, ownId } from "../own-ids.ts";
import { bookingRef, eventType, goneType, parseRef, type Subject } from "../refs.ts";
import { type FiredTimer, TimerRules, timerEvent, timerOf } from "../timers.ts";
import { deadlineOf, decideByOf, type RecheckJson, requestedAtOf, timestampOf } from "./event-times.ts";
import { goneRecordOf, isGone } from "./gone.ts";
import type { GoneWitness } from "./gone-witness.ts";
import { knownStayOf, withKnownStay } from "./known-stay.ts";
import { readRecord } from "./read-record.ts";
import {
  type Comparison,
  compare,
  fetchFailure,
  type RecentAnswers,
  type SnapshotOf,
  type TrackedSnapshot,
} from "./record.ts";
import { type CallbackOptions, runCallback } from "./run-callback.ts";
import type { StatusSeen } from "./unknown-status.ts";
import type { StaySeen } from "./unreadable-stay.ts";

interface WorkOptions<B extends Booking, L extends Listing, Tx> extends CallbackOptions<B, L, Tx> {
  readonly skipUnchanged: boolean;
  readonly snapshotOf: SnapshotOf;
  readonly statusSeen: StatusSeen;
  readonly staySeen: StaySeen;
  /** Absent in `webhooks.process()`, which has no store, always reads the record, and adds no events. */
  readonly queued?:
    | {
        readonly recent: RecentAnswers;
        /** The wait before a recheck, ms. `false` turns rechecks off. */
        readonly recheckAfter: number | false;
        /** Reads an event from the store. */
        readonly find: (eventId: string) => Promise<StoredEvent | undefined>;
        readonly goneWitness: GoneWitness;
        readonly limits: Pick<Policy, "maxAttempts" | "giveUpAfter">;
      }
    | undefined;
}

/** Makes the function that handles one event: it reads the record, then runs the callback for the record's status. */
export function createWork<B extends Booking, L extends Listing, Tx>(
  options: WorkOptions<B, L, Tx>,
): Work<Tx> {
  return async (claim, context) => {
    const stray = strayFrom(claim, options.hasAccounts);
    if (stray) return { state: "failed", reason: "callback", error: stray };
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

/** Returns the error of an event that this handler must not handle: it would read the record with another token. */
function strayFrom(claim: ClaimedEvent, hasAccounts: boolean): StayhookError | undefined {
  const account = accountOf(claim);
  if ((account !== undefined) === hasAccounts) return undefined;
  return new StayhookError(
    account === undefined
      ? "The event has no account, but the handler has the option accountFrom. To give the event to an account, run `stayhook events adopt`."
      : `The event belongs to the account ${account}, but the handler has no option accountFrom.`,
  );
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
    const record = this.#recentRecord();
    return record ? await this.#handleRecord(record) : await this.#readAndHandle();
  }

  async #readAndHandle(): Promise<WorkResult<Tx>> {
    const { client, queued } = this.#options;
    const since = performance.now();
    let record: Booking | Listing;
    try {
      record = await readRecord(client, this.#subject, this.#context.signal);
    } catch (error) {
      queued?.recent.drop(this.#claim.ref);
      return await this.#readFailed(error);
    }
    queued?.recent.keep(this.#claim, record);
    queued?.goneWitness.found(this.#claim.ref!, since);
    // A recent answer says nothing about the platform now.
    this.#context.answered();
    return await this.#handleRecord(record);
  }

  async #handleRecord(record: Booking | Listing): Promise<WorkResult<Tx>> {
    this.#options.statusSeen(this.#subject.kind, record.status, this.#claim.ref);
    const isTimer = this.#claim.source === "timer";
    const type = isTimer ? this.#timerKey : eventType(this.#subject.kind, record.status);
    try {
      return await (isTimer ? this.#fire(record, type) : this.#handle(record, type));
    } catch (error) {
      this.#options.queued?.recent.drop(this.#claim.ref);
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

  async #readFailed(error: unknown): Promise<WorkResult<Tx>> {
    if (error instanceof ResponseValidationError) this.#context.answered();
    const failure = fetchFailure(error);
    if (failure.reason !== "not-found" || !this.#options.queued) return { state: "failed", ...failure };
    const { kind } = this.#subject;
    this.#options.queued.goneWitness.missed(this.#claim.ref!);
    if (this.#claim.previous && this.#options.rules.handles(goneType(kind)))
      return await this.#missing(this.#claim.previous, failure);
    return this.#notFound(failure);
  }

  /** The failure of a record that is not found, and not known to be gone. It counts unless nothing else is found either. */
  #notFound(failure: WorkFailure): Extract<WorkResult<Tx>, { state: "failed" }> {
    const doubt = this.#options.queued!.goneWitness.doubtOf(this.#subject);
    return { state: "failed", ...(doubt ? { reason: failure.reason, ...doubt } : failure) };
  }

  /** A known record was not found: it is gone, if it stays so for all attempts, and something else is found. */
  async #missing(previous: Snapshot, failure: WorkFailure): Promise<WorkResult<Tx>> {
    const { queued } = this.#options;
    const { source, attempts, outages, outageFor } = this.#claim;
    if (source === "timer") return await this.#fireGone(previous, failure);
    if (isGone(previous)) return await this.#goneAgain(previous);
    const isGivenUp = outageFor >= queued!.limits.giveUpAfter;
    const isLast = isGivenUp || isLastAttempt(attempts, failure, queued!.limits);
    const { signal } = this.#context;
    const doubt = await queued!.goneWitness.ask(this.#claim.ref!, signal, { isLast, isGivenUp });
    const { refused, ...counted } = failure;
    if (doubt) return { state: "failed", reason: failure.reason, ...doubt };
    this.#context.answered();
    // The record is no stranger's invention, so its attempts count even in a flood.
    if (!isLast) return { state: "failed", ...counted };
    // The platform may have come back between the two reads, so that the first one says nothing.
    if (outages > 0 && !(await this.#isStillMissing())) return await this.#readAndHandle();
    return await this.#handleGone(previous);
  }

  async #isStillMissing(): Promise<boolean> {
    try {
      await readRecord(this.#options.client, this.#subject, this.#context.signal);
      return false;
    } catch (error) {
      return fetchFailure(error).reason === "not-found";
    }
  }

  /** A gone record is still not found. Only the replay of its own event runs the callback again. */
  async #goneAgain(previous: Snapshot): Promise<WorkResult<Tx>> {
    const type = goneType(this.#subject.kind);
    const { replayed, eventId } = this.#claim;
    const known = replayed ? await this.#options.queued!.find(eventId) : undefined;
    return known?.type === type ? await this.#handleGone(previous) : { state: "done", type };
  }

  async #handleGone(previous: Snapshot): Promise<WorkResult<Tx>> {
    const { kind } = this.#subject;
    const { record, snapshot, changed, ...compared } = goneRecordOf(this.#subject, previous);
    const type = goneType(kind);
    try {
      const fields = { type, status: GONE, [kind]: record, changed, ...compared };
      const called = await runCallback(this.#options, this.#claim, this.#context, fields);
      return { state: "done", type, snapshot: { snapshot, changed }, ...called };
    } catch (error) {
      return { state: "failed", reason: "callback", error, type };
    }
  }

  /** Runs the callback of a timer whose record is gone. If the user's side does not know that yet, the timer waits. */
  async #fireGone(previous: Snapshot, failure: WorkFailure): Promise<WorkResult<Tx>> {
    const type = this.#timerKey;
    if (!isGone(previous)) {
      const waiting = await this.#awaitRecheck(timerOf(this.#claim), type);
      if (waiting) return waiting;
      const recheck = await this.#options.queued!.find(ownId("recheck", this.#claim.ref!));
      // Nobody knows whether the record is gone, so the timer must not act as if it were.
      if (recheck?.state !== "parked") return this.#notFound(failure);
      if (recheck.reason !== "callback") return { state: "failed", ...failure, type, maxAttempts: 0 };
    }
    const { record, previous: known } = goneRecordOf(this.#subject, previous);
    const fields = { status: GONE, [this.#subject.kind]: record };
    return await this.#callTimer(type, { ...fields, previous: known });
  }

  async #handle(record: Booking | Listing, type: string): Promise<WorkResult<Tx>> {
    const ownRef = this.#differingRef(record);
    if (ownRef !== undefined) return { state: "done", type, events: [followUpOf(this.#claim, ownRef)] };
    const { changed, changes, previous, ...now } = this.#compare(record);
    if (this.#subject.kind === "booking") this.#options.staySeen(this.#claim, now.snapshot, now.stay);
    const { source, replayed, previous: known } = this.#claim;
    const requestedAt =
      type === "booking.Request"
        ? requestedAtOf(this.#claim, known?.status === "Request" ? knownStayOf(known).requestedAt : undefined)
        : undefined;
    // A reconcile or recheck event of an unchanged record runs no callback: an earlier event has handled the record.
    const onChangeOnly = this.#options.skipUnchanged || source !== "webhook";
    const isAskedFor = replayed || isOwnId("again", this.#claim.eventId);
    const called =
      changed || isAskedFor || !onChangeOnly
        ? await runCallback(this.#options, this.#claim, this.#context, {
            type,
            status: record.status,
            [this.#subject.kind]: record,
            changed,
            changes,
            previous,
            ...(requestedAt !== undefined && { decideBy: deadlineOf(requestedAt) }),
          })
        : undefined;
    const snapshot =
      this.#subject.kind === "booking"
        ? withKnownStay(now.snapshot, now.stay, known, called !== undefined, requestedAt)
        : now.snapshot;
    const extra = this.#recheck(record, changed);
    return { state: "done", type, snapshot: { snapshot, changed }, ...called, extra };
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
    const { changed, previous } = this.#compare(record);
    const waiting = !previous
      ? await this.#awaitFirst(type)
      : changed
        ? await this.#awaitRecheck(timer, type)
        : undefined;
    if (waiting) return waiting;
    return await this.#callTimer(type, { status: record.status, [this.#subject.kind]: record, previous });
  }

  async #callTimer(type: string, fields: object): Promise<WorkResult<Tx>> {
    try {
      if (!this.#options.rules.handles(type))
        throw new StayhookError(
          `\`on\` has no callback ${type} and no fallback. If an older version of the app runs, deploy the newer one.`,
        );
      const timer = timerOf(this.#claim);
      const unchanged = { changed: false, changes: {} };
      const called = await runCallback(this.#options, this.#claim, this.#context, {
        type,
        ...fields,
        ...unchanged,
        timer,
      });
      return { state: "done", type, ...called };
    } catch (error) {
      this.#options.queued?.recent.drop(this.#claim.ref);
      return { state: "failed", reason: "callback", error, type };
    }
  }

  /** Returns the same timer of the record `ref`, unless that record's timer was set later than this one. */
  async #movedTo(ref: string, { name, at }: FiredTimer): Promise<readonly FurtherEvent[]> {
    const event = timerEvent(ref, name, at, this.#claim.traceparent);
    const known = await this.#options.queued?.find(event.eventId);
    const isNewer = known !== undefined && known.receivedAt.getTime() > this.#claim.receivedAt;
    return isNewer ? [] : [{ event, replace: "moved" }];
  }

  /**
   * Lets the timer of a record without a snapshot wait until the record's first event has ended. The timer was set from
   * outside, and the callback of that event may clear it.
   *
   * @returns `undefined` if no event of the record waits but timers
   */
  async #awaitFirst(type: string): Promise<WorkResult<Tx> | undefined> {
    const { list } = this.#options;
    if (!list) return undefined;
    const ref = this.#claim.ref!;
    const found = await Promise.all(WAITING.map(([state, source]) => list({ ref, state, source, limit: 1 })));
    const dueAt = found.flat().map((event) => event.dueAt?.getTime() ?? 0);
    return dueAt.length === 0 ? undefined : waitUntil(Math.min(...dueAt), type, FIRST_WAITS);
  }

  /**
   * Makes the record's recheck due now, and lets the timer wait until that recheck has ended. The recheck's own JSON
   * lists the timers that have asked for it. A timer asks once for each change that it sees: the record may change again
   * after the recheck has read it.
   *
   * @returns `undefined` if the recheck that this timer has asked for is done or parked, and has not handled the change
   */
  async #awaitRecheck(timer: FiredTimer, type: string): Promise<WorkResult<Tx> | undefined> {
    const { ref, timestamp, receivedAt, sequence } = this.#claim;
    const recheck = await this.#options.queued?.find(ownId("recheck", ref!));
    const told = JSON.parse(recheck?.notification ?? "{}") as RecheckJson;
    const due = recheck?.dueAt ?? undefined;
    // A timer that was cleared and set to the same time again asks again.
    const set = `${timestamp} ${receivedAt}`;
    const known = told.timers?.[timer.name];
    const asks = known?.startsWith(`${set} `) ? known.slice(set.length + 1).split(" ") : [];
    const isAsked = asks.includes(String(sequence)) || asks.length >= MOST_ASKS;
    if (isAsked && due === undefined) return undefined;
    // A recheck that has ended was about an earlier change, so its times say nothing about this one.
    const kept = due === undefined ? {} : told;
    const timers = { ...told.timers, [timer.name]: [set, ...asks, sequence].join(" ") };
    return {
      ...waitUntil(isAsked ? due!.getTime() : 0, type, CHANGE_WAITS),
      events: isAsked ? [] : [recheckForTimer(this.#claim, { ...kept, timers }, recheck?.timestamp)],
    };
  }

  #compare(record: Booking | Listing): TrackedSnapshot & Comparison {
    const now = this.#options.snapshotOf(this.#subject.kind, record, this.#subject.account);
    return { ...now, ...compare(this.#claim.previous, now) };
  }

  /**
   * Returns the ref with the booking code that the API returned, if a notification or a timer spells that code
   * differently. The refs of all other events already have the API's code.
   */
  #differingRef(record: Booking | Listing): string | undefined {
    const { source, ref, eventId } = this.#claim;
    const isFirst = source === "timer" || (source === "webhook" && !isOwnId("follow-up", eventId));
    if (!this.#options.queued || !isFirst || this.#subject.kind !== "booking") return undefined;
    const own = bookingRef((record as Booking).bookingCode, this.#subject.account);
    return own === ref ? undefined : own;
  }

  /** Schedules another read of the record, because the platform may notify before its API shows the change. */
  #recheck(record: Booking | Listing, changed: boolean): readonly FurtherEvent[] {
    const { source, replayed, notification } = this.#claim;
    const { recheckAfter = false } = this.#options.queued ?? {};
    if (recheckAfter === false || replayed || (source !== "webhook" && source !== "recheck")) return [];
    if (source === "recheck") {
      const { unexplained, timers, ...told } = JSON.parse(notification ?? "{}") as ToldJson;
      return unexplained && !timers && !changed ? [recheckOf(this.#claim, THIRD_LOOK, told)] : [];
    }
    if (changed && !this.#isPassing(record.status)) return [];
    // The platform documents no notification for a booking that has only been begun.
    const unexplained = !changed || record.status === "Initiated";
    const [timestamp, decideBy] = [timestampOf(this.#claim), decideByOf(this.#claim)];
    const told = { recheckOf: this.#claim.eventId, timestamp, decideBy };
    return [recheckOf(this.#claim, recheckAfter, { ...told, ...(unexplained && { unexplained }) })];
  }

  /** Whether a booking with this status soon has another one. With Instant Book, the confirmation may be on its way. */
  #isPassing(status: string): boolean {
    const { kind } = this.#subject;
    return ["Request", "Initiated"].includes(status) || eventType(kind, status) === `${kind}.unknown`;
  }
}

/** The wait between the second and the third look at a record, ms. */
const THIRD_LOOK = 15 * 60_000;

/** What a recheck tells of its notification. */
type ToldJson = RecheckJson & { readonly recheckOf?: string };

/**
 * Returns the event that reads the record again after `wait` ms. Each notification moves the record's recheck, so that the
 * second look comes this long after the last notification.
 */
function recheckOf({ ref, traceparent }: ClaimedEvent, wait: number, told: object): FurtherEvent {
  return {
    event: {
      eventId: ownId("recheck", ref!),
      ref,
      source: "recheck",
      topic: null,
      timestamp: new Date(now() + wait).toISOString(),
      notification: JSON.stringify(told),
      traceparent,
    },
    dueIn: wait,
    replace: "moved",
  };
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

/** The shortest and the longest wait of a timer for another event, ms. A replay may end that event before its time. */
const [LEAST_WAIT, MOST_WAIT] = [100, 60_000];

/** How often a timer asks for a recheck. A record may differ at each read, and its timer must fire all the same. */
const MOST_ASKS = 5;
const CHANGE_WAITS = "the record has changed, so its change is handled before the timer";
const FIRST_WAITS = "the first event of the record waits, so it is handled before the timer";

/** The states and sources of events that come before the timer of a record without a snapshot. */
const WAITING = (["pending", "retrying"] as const).flatMap((state) =>
  (["webhook", "reconcile", "recheck"] as const).map((source) => [state, source] as const),
);

/** Returns the end of an attempt at a timer that waits for another event of its record. */
function waitUntil(
  dueAt: number,
  type: string,
  message: string,
): Extract<WorkResult<never>, { state: "failed" }> {
  return {
    state: "failed",
    type,
    reason: "unavailable",
    error: new Error(message),
    waitFor: Math.min(Math.max(dueAt - now(), LEAST_WAIT), MOST_WAIT),
  };
}
