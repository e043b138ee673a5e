import { accountOf } from "../../account.ts";
import { StayhookError } from "../../errors.ts";
import { toInteger } from "../../models/ids.ts";
import type { Booking } from "../../models/records.ts";
import type { Work, WorkResult } from "../../queue/work.ts";
import { thingType } from "../../stays/thing-events.ts";
import type { FurtherEvent } from "../../stores/event-store.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { isOfKnownRecord, isOwnId, ownId } from "../own-ids.ts";
import { bookingRef, eventType, parseRef } from "../refs.ts";
import { timerOf } from "../timer-rules.ts";
import { handleFound, staysIn } from "./change.ts";
import { timestampOf } from "./event-times.ts";
import { fireTimer, movedTo, timerTypeOf } from "./fire-timer.ts";
import { type Found, forget, withPlan } from "./handle-thing.ts";
import { handleFailedRead, handleGone } from "./missing-record.ts";
import { type ReadRecord, readRecord } from "./read-record.ts";
import { canonicalJson, compare, type RecentRead } from "./record.ts";
import { callbackFailed, type Ended, type RecordWork, type WorkOptions } from "./record-work.ts";
import { runCallback } from "./run-callback.ts";
import type { Look } from "./snapshots.ts";

/** Makes the function that handles one event: it reads the record, then runs the callback for the record's status. */
export function createWork<Tx>(options: WorkOptions<Tx>): Work<Tx> {
  return async (claim, context): Promise<WorkResult<Tx>> => {
    const stray = strayFrom(claim, options.hasAccounts);
    if (stray) return { state: "failed", reason: "callback", error: stray };
    const subject = parseRef(claim.ref);
    if (subject) {
      // The user has erased the record since the event was added. Only a notification or `watch` brings it back.
      const isErased = !claim.previous && isOfKnownRecord(claim.eventId);
      if (isErased) return { state: "done", type: eventType(subject.kind, "unknown") };
      return await handleRecord({ options, claim, context, subject });
    }
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

async function handleRecord<Tx>(work: RecordWork<Tx>): Promise<Ended<Tx>> {
  const forgotten = await forget(work);
  if (forgotten) return forgotten;
  const recent = recentRead(work);
  if (recent === "gone") return await handleGone(work, work.claim.previous!);
  return recent ? await handleAnswer(work, recent.read, recent) : await readAndHandle(work);
}

async function readAndHandle<Tx>(work: RecordWork<Tx>): Promise<Ended<Tx>> {
  const { options, claim, context, subject } = work;
  const { client, queued } = options;
  const found = (read: ReadRecord): Promise<Ended<Tx>> => {
    // A recent answer says nothing about the platform now.
    context.answered("record");
    return handleAnswer(work, read);
  };
  let read: ReadRecord;
  try {
    read = await readRecord(client, subject, context.signal);
  } catch (error) {
    queued?.recent.drop(claim.ref);
    return await handleFailedRead(work, error, found);
  }
  return await found(read);
}

/** @param recent - what an earlier event has seen in the same answer */
async function handleAnswer<Tx>(
  work: RecordWork<Tx>,
  read: ReadRecord,
  recent?: RecentRead,
): Promise<Ended<Tx>> {
  const { options, claim, subject } = work;
  const { kind, account } = subject;
  const { status } = read.record;
  options.statusSeen(kind, status, claim.ref);
  const isTimer = claim.source === "timer";
  const type = isTimer
    ? timerTypeOf(work)
    : claim.source === "thing"
      ? thingType(claim)
      : eventType(kind, status);
  const ref = differingRef(work, read.record);
  if (ref !== undefined) {
    options.queued?.recent.keep(claim, read);
    const events = isTimer ? await movedTo(work, ref, timerOf(claim)) : [followUpOf(claim, ref)];
    return { state: "done", type, events };
  }
  let look = recent?.look;
  try {
    look ??= await options.lookAt(kind, read, account);
  } catch (error) {
    return await withoutTrack(work, read, (planned) => callbackFailed(planned, error, type));
  }
  if (!recent?.look) options.queued?.recent.keep(claim, read, look);
  const seen = look;
  const found = foundIn(work, seen, recent?.look && recent.claimedAt);
  return await withPlan(work, found, (planned) =>
    isTimer ? fireTimer(planned, seen) : handleFound(planned, seen),
  );
}

/** A `track` that throws fails the event, but the things of a stay need no field of it. */
async function withoutTrack<Tx>(
  work: RecordWork<Tx>,
  read: ReadRecord,
  fail: (work: RecordWork<Tx>) => Ended<Tx>,
): Promise<Ended<Tx>> {
  const { options, subject } = work;
  if (!options.things || subject.kind !== "booking") return fail(work);
  const look = await options.lookAt(subject.kind, read, subject.account, false);
  const found = foundIn(work, look, undefined);
  // Without those fields, nobody can say whether the booking differs from its snapshot.
  return await withPlan(work, found && { ...found, changed: false }, async (planned) => fail(planned));
}

/** Returns what the plan of a booking is made of. */
function foundIn<Tx>(work: RecordWork<Tx>, look: Look, readFor: number | undefined): Found | undefined {
  const stays = staysIn(work, look);
  if (!stays) return undefined;
  const { changed } = compare(work.claim.previous, look);
  const { record, base, zoneProblem } = look;
  return {
    booking: record as Booking,
    stays,
    listingId: toInteger(base.listingId),
    readFor,
    zoneProblem,
    changed,
  };
}

/** Returns a recent answer, unless another process has stored a different snapshot since the read. */
function recentRead<Tx>({ options, claim }: RecordWork<Tx>): RecentRead | "gone" | undefined {
  const recent = options.queued?.recent.find(claim);
  if (recent === "gone") return claim.previous && recent;
  if (!recent?.look || !claim.previous) return recent;
  // The event of the change, which writes its snapshot, may come after the things that are due.
  const isSame = canonicalJson(claim.previous) === canonicalJson(recent.previous);
  return isSame || !compare(claim.previous, recent.look).changed ? recent : undefined;
}

/**
 * Returns the ref with the booking code that the API returned, if a notification or a timer spells that code
 * differently. The refs of all other events already have the API's code.
 */
function differingRef<Tx>(
  { options, claim, subject }: RecordWork<Tx>,
  record: ReadRecord["record"],
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
