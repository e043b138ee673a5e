// A known record that the platform does not find, or refuses. If that lasts, and others are found, the record is gone.

import { ResponseValidationError } from "../../client/client-errors.ts";
import type { Booking } from "../../models/records.ts";
import { GONE } from "../../models/statuses.ts";
import { isLastAttempt } from "../../queue/wait-rules.ts";
import type { WorkFailure } from "../../queue/work.ts";
import { uncountedOf } from "../../stores/outcomes.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import { goneType, type Subject } from "../refs.ts";
import { type EventStays, staysOf } from "../stay-change.ts";
import { callbackFor } from "../timer-rules.ts";
import { asChange, callTimer, handleBefore } from "./fire-timer.ts";
import { goneRecordOf, isGone } from "./gone.ts";
import type { Doubt } from "./gone-witness.ts";
import { type Found, withPlan } from "./handle-thing.ts";
import { knownOf } from "./known-stay.ts";
import { type ReadRecord, readFrom, readRecord } from "./read-record.ts";
import { fetchFailure } from "./record.ts";
import {
  callbackFailed,
  type Ended,
  type QueuedOptions,
  type RecordWork,
  type WorkOptions,
} from "./record-work.ts";
import { runCallback } from "./run-callback.ts";

/** What an attempt knows of a missing record. */
interface Missing<Tx> {
  readonly work: RecordWork<Tx>;
  readonly queued: QueuedOptions;
  /** The record's last snapshot. */
  readonly previous: Snapshot;
  readonly failure: WorkFailure;
}

/**
 * Ends an attempt whose read failed.
 *
 * @param found - handles the record, because another read has found it
 */
export async function handleFailedRead<Tx>(
  work: RecordWork<Tx>,
  error: unknown,
  found: (read: ReadRecord) => Promise<Ended<Tx>>,
): Promise<Ended<Tx>> {
  const { options, claim, context, subject } = work;
  const { queued } = options;
  if (error instanceof ResponseValidationError) context.answered("record");
  const failure = fetchFailure(error);
  if (!queued || !failure.refused) return { state: "failed", ...failure };
  const { previous } = claim;
  const isLast = isLastAttempt(failure, claim, queued.limits);
  if (!previous || !hasGone(options, subject.kind)) {
    // Strangers invent codes, so only the refusal that ends such an event costs a second read.
    const doubt = previous || isLast ? await doubtAbout(work, failure) : undefined;
    return { state: "failed", ...(doubt ?? failure) };
  }
  const missing = { work, queued, previous, failure };
  if (isGone(previous)) return await handleStillGone(missing);
  if (failure.reason !== "not-found") return await handleRefused(missing, found);
  const doubt = await doubtAbout(work, failure);
  if (doubt) return { state: "failed", ...doubt };
  context.answered("another");
  return isLast || isGivenUp(work) ? await handleIfStill(missing, found) : { state: "failed", ...failure };
}

/** Finds out whether the platform hides all records of the kind of a record that was not found. */
async function doubtAbout<Tx>(work: RecordWork<Tx>, { reason }: WorkFailure): Promise<Doubt | undefined> {
  if (reason !== "not-found") return undefined;
  const { options, claim, context } = work;
  const { ref, previous } = claim;
  const suspect = { ref: ref!, previous, isGivenUp: isGivenUp(work) };
  return await options.queued!.goneWitness.ask(suspect, context.signal);
}

/** Whether the event has not found its record for `giveUpAfter`. */
function isGivenUp<Tx>({ options, claim }: RecordWork<Tx>): boolean {
  return uncountedOf(claim, "refusal").outageFor >= options.queued!.limits.giveUpAfter;
}

/** A known record was refused: it is gone, if that lasts for `giveUpAfter`, and others are found. */
async function handleRefused<Tx>(
  missing: Missing<Tx>,
  found: (read: ReadRecord) => Promise<Ended<Tx>>,
): Promise<Ended<Tx>> {
  const { work, queued, failure } = missing;
  const { claim, context } = work;
  const { goneWitness, limits, refusals } = queued;
  const { lasted, events } = await refusals.noted(claim.ref!, claim.claimedAt);
  if (lasted < limits.giveUpAfter || !(await goneWitness.isOtherFound(claim.ref!, context.signal)))
    return { state: "failed", ...failure, events };
  context.answered("another");
  return await handleIfStill(missing, found);
}

/** Reads the record once more, because the platform may have come back before another record was found. */
async function handleIfStill<Tx>(
  missing: Missing<Tx>,
  found: (read: ReadRecord) => Promise<Ended<Tx>>,
): Promise<Ended<Tx>> {
  const { options, subject, context } = missing.work;
  let read: ReadRecord;
  try {
    read = await readRecord(options.client, subject, context.signal);
  } catch (error) {
    const failure = fetchFailure(error);
    if (error instanceof ResponseValidationError) context.answered("record");
    return failure.reason === missing.failure.reason
      ? await foundGone(missing)
      : { state: "failed", ...failure };
  }
  return await found(read);
}

/** Whether something runs for a record that is gone. */
function hasGone<Tx>({ on, things }: WorkOptions<Tx>, kind: Subject["kind"]): boolean {
  return (kind === "booking" && things !== undefined) || callbackFor(on, goneType(kind)) !== undefined;
}

async function foundGone<Tx>({ work, queued, previous }: Missing<Tx>): Promise<Ended<Tx>> {
  queued.recent.keepGone(work.claim);
  return await handleGone(work, previous);
}

/** Handles a record that is gone. Before a timer, that is a change. */
export async function handleGone<Tx>(given: RecordWork<Tx>, previous: Snapshot): Promise<Ended<Tx>> {
  return await withPlan(given, nothingIn(given, previous), (work) => {
    if (work.claim.source !== "timer") return callGone(work, previous);
    return handleBefore(
      work,
      () => callGone(asChange(work), previous),
      () => fireGone(work, previous),
    );
  });
}

/** A gone record is still not found. Only a timer, or the replay of its own event, runs a callback. */
async function handleStillGone<Tx>({ work: given, previous }: Missing<Tx>): Promise<Ended<Tx>> {
  return await withPlan(given, nothingIn(given, previous), async (work) => {
    const { claim, subject } = work;
    if (claim.source === "timer") return await fireGone(work, previous);
    const type = goneType(subject.kind);
    const own = claim.replayed ? await work.options.store!.get(claim.eventId) : undefined;
    return own?.type === type ? await callGone(work, previous) : { state: "done", type };
  });
}

/** Returns what the plan of a gone booking is made of. */
function nothingIn<Tx>({ subject }: RecordWork<Tx>, previous: Snapshot): Found | undefined {
  if (subject.kind === "listing") return undefined;
  const none = { timeZone: undefined, stay: undefined, from: undefined, to: undefined, problem: undefined };
  return { booking: undefined, stays: none, changed: !isGone(previous) };
}

/** Runs the callback for a record that is gone. */
async function callGone<Tx>(work: RecordWork<Tx>, previous: Snapshot): Promise<Ended<Tx>> {
  const { options, claim, context, subject } = work;
  const { record, snapshot, changed, ...comparison } = goneRecordOf(subject, previous);
  const stays = await staysOfGone(work, previous, record);
  const type = goneType(subject.kind);
  try {
    const event = { type, status: GONE, [subject.kind]: record, changed, ...comparison };
    const called = await runCallback(options, claim, context, event, stays);
    return { state: "done", type, snapshot: { snapshot, changed }, ...called };
  } catch (error) {
    return callbackFailed(work, error, type);
  }
}

/** Runs the callback of a timer whose record is gone. */
async function fireGone<Tx>(work: RecordWork<Tx>, before: Snapshot): Promise<Ended<Tx>> {
  const { record, previous } = goneRecordOf(work.subject, before);
  const stays = await staysOfGone(work, before, record);
  return await callTimer(work, { status: GONE, [work.subject.kind]: record, previous }, stays);
}

/** Returns what an event tells of the stay of a gone booking. `undefined` for a listing. */
async function staysOfGone<Tx>(
  { options, claim, subject }: RecordWork<Tx>,
  previous: Snapshot,
  record: object,
): Promise<EventStays | undefined> {
  const { account } = subject;
  if (subject.kind !== "booking") return undefined;
  const { bookingCode } = subject;
  let timeZone: string | undefined;
  try {
    timeZone = await options.zoneOf(readFrom("booking", record as Booking), { account });
  } catch (error) {
    // The user's function may need fields of a model, which a gone booking does not have.
    options.log.warn(`the event of the gone ${claim.ref} has no timeZone`, { error, ref: claim.ref });
  }
  const look = { bookingCode, status: GONE, fields: {}, timeZone };
  return staysOf(look, knownOf(previous).stay, options.holds);
}
