import { accountOf } from "../../account.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Work, WorkResult } from "../../queue/work.ts";
import type { FurtherEvent } from "../../stores/event-store.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { isOwnId, ownId } from "../own-ids.ts";
import { bookingRef, eventType, parseRef } from "../refs.ts";
import { timerOf } from "../timer-rules.ts";
import { handleFound } from "./change.ts";
import { timestampOf } from "./event-times.ts";
import { fireTimer, movedTo, timerTypeOf } from "./fire-timer.ts";
import { handleFailedRead } from "./missing-record.ts";
import { readRecord } from "./read-record.ts";
import { compared, type Done, type Failed, type RecordWork, type WorkOptions } from "./record-work.ts";
import { runCallback } from "./run-callback.ts";

/** Makes the function that handles one event: it reads the record, then runs the callback for the record's status. */
export function createWork<Tx>(options: WorkOptions<Tx>): Work<Tx> {
  return async (claim, context): Promise<WorkResult<Tx>> => {
    const stray = strayFrom(claim, options.hasAccounts);
    if (stray) return { state: "failed", reason: "callback", error: stray };
    const subject = parseRef(claim.ref);
    if (subject) return await handleRecord({ options, claim, context, subject });
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

async function handleRecord<Tx>(work: RecordWork<Tx>): Promise<Done<Tx> | Failed> {
  const record = recentRecord(work);
  return record ? await handleAnswer(work, record) : await readAndHandle(work);
}

async function readAndHandle<Tx>(work: RecordWork<Tx>): Promise<Done<Tx> | Failed> {
  const { options, claim, context, subject } = work;
  const { client, queued } = options;
  const since = performance.now();
  let record: Booking | Listing;
  try {
    record = await readRecord(client, subject, context.signal);
  } catch (error) {
    queued?.recent.drop(claim.ref);
    return await handleFailedRead(work, error, () => readAndHandle(work));
  }
  queued?.recent.keep(claim, record);
  queued?.goneWitness.found(claim.ref!, since);
  // A recent answer says nothing about the platform now.
  context.answered();
  return await handleAnswer(work, record);
}

async function handleAnswer<Tx>(work: RecordWork<Tx>, record: Booking | Listing): Promise<Done<Tx> | Failed> {
  const { options, claim, subject } = work;
  options.statusSeen(subject.kind, record.status, claim.ref);
  const isTimer = claim.source === "timer";
  const ref = differingRef(work, record);
  if (ref === undefined) return await (isTimer ? fireTimer(work, record) : handleFound(work, record));
  return isTimer
    ? { state: "done", type: timerTypeOf(work), events: await movedTo(work, ref, timerOf(claim)) }
    : { state: "done", type: eventType(subject.kind, record.status), events: [followUpOf(claim, ref)] };
}

/** Returns a recently read record, unless another process has stored a different snapshot since the read. */
function recentRecord<Tx>(work: RecordWork<Tx>): Booking | Listing | undefined {
  const { options, claim } = work;
  const record = options.queued?.recent.find(claim);
  try {
    return record && (!claim.previous || !compared(work, record).changed) ? record : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the ref with the booking code that the API returned, if a notification or a timer spells that code
 * differently. The refs of all other events already have the API's code.
 */
function differingRef<Tx>(
  { options, claim, subject }: RecordWork<Tx>,
  record: Booking | Listing,
): string | undefined {
  const { source, ref, eventId } = claim;
  const isFirst = source === "timer" || (source === "webhook" && !isOwnId("follow-up", eventId));
  if (!options.queued || !isFirst || subject.kind !== "booking") return undefined;
  const apiRef = bookingRef((record as Booking).bookingCode, subject.account);
  return apiRef === ref ? undefined : apiRef;
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
