import { ResponseValidationError } from "../../client/errors.ts";
import type { Booking } from "../../models/booking.ts";
import type { Listing } from "../../models/listing.ts";
import type { Work, WorkContext, WorkResult } from "../../queue/work.ts";
import type { ClaimedEvent } from "../../stores/event-store.ts";
import { eventType } from "../event-type.ts";
import { bookingRef, parseRef, type Subject } from "../ref.ts";
import { type CallbackOptions, decideByOf, runCallback, timestampOf } from "./callback.ts";
import { fetchFailure } from "./failures.ts";
import { type FurtherEvents, followUpId } from "./further-events.ts";
import type { RecentAnswers } from "./recent-answers.ts";
import { type Comparison, compare, type SnapshotOf, type TrackedSnapshot } from "./snapshot.ts";

export interface WorkOptions<B extends Booking, L extends Listing, Tx> extends CallbackOptions<B, L, Tx> {
  readonly dispatch: "every" | "changed";
  readonly snapshotOf: SnapshotOf;
  /** Absent where there is no store. Each attempt then reads its record, and leads to no further events. */
  readonly queued?: { readonly recent: RecentAnswers; readonly further: FurtherEvents } | undefined;
}

/** Makes the work of an event: read its record, then run the callback for the record's status. */
export function createWork<B extends Booking, L extends Listing, Tx>(
  options: WorkOptions<B, L, Tx>,
): Work<Tx> {
  return async (claim, context) => {
    const subject = parseRef(claim.ref);
    if (subject) return new RecordWork(options, claim, context, subject).run();
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
        return this.#unread(error);
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

  /** The answer to a read of before, unless another process has handled a later one since. */
  #recentRecord(): Booking | Listing | undefined {
    const record = this.#options.queued?.recent.find(this.#claim);
    try {
      return record && (!this.#claim.previous || !this.#look(record).changed) ? record : undefined;
    } catch {
      return undefined;
    }
  }

  #read(): Promise<Booking | Listing> {
    const { bookings, listings } = this.#options.client;
    // The queue does the retries, and has to hear of an outage at once.
    const once = { signal: this.#context.signal, maxRetries: 0 };
    return this.#subject.kind === "booking"
      ? bookings.get(this.#subject.bookingCode, once)
      : listings.get(this.#subject.listingId, once);
  }

  #unread(error: unknown): WorkResult<Tx> {
    if (error instanceof ResponseValidationError) this.#context.answered();
    const failure = fetchFailure(error);
    if (this.#claim.source !== "recheck") return { state: "failed", ...failure };
    const type = eventType(this.#subject.kind, this.#claim.previous?.status ?? "");
    return { state: "done", type, error, reason: failure.reason };
  }

  async #handle(record: Booking | Listing, type: string): Promise<WorkResult<Tx>> {
    if (await this.#isFollowedUp(record)) return { state: "done", type };
    const { snapshot, changed, changes, previous } = this.#look(record);
    const { source, replayed } = this.#claim;
    // A reconcile or recheck event is about a change: without one, a webhook event was faster.
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
    if (!changed && !replayed && source === "webhook") await this.#recheck();
    return { state: "done", type, record: { snapshot, changed }, writes };
  }

  #look(record: Booking | Listing): TrackedSnapshot & Comparison {
    const snapshot = this.#options.snapshotOf(this.#subject.kind, record);
    return { ...snapshot, ...compare(this.#claim.previous, snapshot) };
  }

  async #recheck(): Promise<void> {
    const claim = this.#claim;
    const { further } = this.#options.queued ?? {};
    await further?.recheck(claim, timestampOf(claim), decideByOf(claim), this.#context.signal);
  }

  /** The client gives no other booking, but the code of a booking may differ from the one asked for in case. */
  async #isFollowedUp(record: Booking | Listing): Promise<boolean> {
    const { queued } = this.#options;
    const claim = this.#claim;
    const ref = this.#subject.kind === "booking" ? bookingRef((record as Booking).bookingCode) : claim.ref;
    if (!queued || ref === null || ref === claim.ref || isFollowUp(claim)) return false;
    await queued.further.followUp(claim, ref, timestampOf(claim), this.#context.signal);
    return true;
  }
}

/** Events of the reconciler and rechecks have the ref of the booking's own code already. */
function isFollowUp({ source, eventId, ref, notification }: ClaimedEvent): boolean {
  if (source !== "webhook" || ref === null || notification === null) return true;
  const { eventId: first } = JSON.parse(notification) as { readonly eventId: unknown };
  return eventId === followUpId(String(first).toLowerCase(), ref);
}
