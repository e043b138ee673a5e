// A known record that the platform does not find, or refuses. If that lasts, and others are found, the record is gone.

import { ResponseValidationError } from "../../client/client-errors.ts";
import { GONE } from "../../models/statuses.ts";
import { isLastAttempt } from "../../queue/retries.ts";
import type { WorkFailure } from "../../queue/work.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import { goneType } from "../refs.ts";
import { callbackFor } from "../timer-rules.ts";
import { asChange, callTimer, handleBefore } from "./fire-timer.ts";
import { goneRecordOf, isGone } from "./gone.ts";
import { readRecord } from "./read-record.ts";
import { fetchFailure } from "./record.ts";
import {
  callbackFailed,
  type Done,
  type Failed,
  type QueuedOptions,
  type RecordWork,
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
 * @param readAgain - makes the attempt anew, because the record is back
 */
export async function handleFailedRead<Tx>(
  work: RecordWork<Tx>,
  error: unknown,
  readAgain: () => Promise<Done<Tx> | Failed>,
): Promise<Done<Tx> | Failed> {
  const { options, claim, context, subject } = work;
  const { queued } = options;
  if (error instanceof ResponseValidationError) context.answered();
  const failure = fetchFailure(error);
  const isMissing = failure.reason === "not-found";
  if (!queued || !(isMissing || failure.refused)) return { state: "failed", ...failure };
  if (isMissing) queued.goneWitness.missed(claim.ref!);
  const { previous } = claim;
  if (previous && callbackFor(options.on, goneType(subject.kind))) {
    const missing = { work, queued, previous, failure };
    if (isGone(previous)) return await handleStillGone(missing);
    return isMissing ? await handleMissing(missing, readAgain) : await handleRefused(missing);
  }
  // The failure counts, unless nothing else is found either. Ask anew: records of strangers alone would never end a doubt.
  const isDoubted = isMissing && queued.goneWitness.doubtOf(subject) !== undefined;
  const suspect = { ref: claim.ref!, previous, isGivenUp: false };
  const doubt = isDoubted ? await queued.goneWitness.ask(suspect, context.signal) : undefined;
  return { state: "failed", ...(doubt ? { reason: failure.reason, ...doubt } : failure) };
}

/** A known record was not found: it is gone, if it stays so for all attempts, and something else is found. */
async function handleMissing<Tx>(
  missing: Missing<Tx>,
  readAgain: () => Promise<Done<Tx> | Failed>,
): Promise<Done<Tx> | Failed> {
  const { work, queued, previous, failure } = missing;
  const { claim, context, subject } = work;
  const { goneWitness, limits } = queued;
  const { attempts, outages, outageFor } = claim;
  const isGivenUp = outageFor >= limits.giveUpAfter;
  const isLast = isGivenUp || isLastAttempt(attempts, failure, limits);
  // The last attempt but one asks, too: what was found between two reads shows that the second one is no outage.
  const asks =
    isLast || isLastAttempt(attempts + 1, failure, limits) || goneWitness.doubtOf(subject) !== undefined;
  const doubt = asks
    ? await goneWitness.ask({ ref: claim.ref!, previous, isGivenUp }, context.signal)
    : undefined;
  if (doubt) return { state: "failed", reason: failure.reason, ...doubt };
  context.answered();
  if (!isLast) return counted(failure);
  // The platform may have come back between the two reads, so that the first one says nothing.
  if (outages > 0 && !(await isStillMissing(work))) return await readAgain();
  return await handleGone(missing);
}

/** A known record was refused: it is gone, if that lasts for `giveUpAfter`, and others are found. */
async function handleRefused<Tx>(missing: Missing<Tx>): Promise<Done<Tx> | Failed> {
  const { work, queued, failure } = missing;
  const { claim, context } = work;
  const { goneWitness, limits, refusals } = queued;
  context.answered();
  const { lasted, events } = await refusals.noted(claim.ref!, claim.claimedAt);
  const isOver = lasted >= limits.giveUpAfter;
  if (isOver && (await goneWitness.isOtherFound(claim.ref!, context.signal)))
    return await handleGone(missing);
  return { ...counted(failure), events };
}

/** The record is no stranger's invention, so its attempts count even in a flood. */
function counted({ refused: _, ...failure }: WorkFailure): Failed {
  return { state: "failed", ...failure };
}

async function isStillMissing<Tx>({ options, subject, context }: RecordWork<Tx>): Promise<boolean> {
  try {
    await readRecord(options.client, subject, context.signal);
    return false;
  } catch (error) {
    return fetchFailure(error).reason === "not-found";
  }
}

/** Handles a record that is gone. Before a timer, that is a change. */
async function handleGone<Tx>(missing: Missing<Tx>): Promise<Done<Tx> | Failed> {
  const { work, previous } = missing;
  if (work.claim.source !== "timer") return await callGone(work, previous);
  return await handleBefore(
    work,
    () => callGone(asChange(work), previous),
    () => fireGone(work, previous),
  );
}

/** A gone record is still not found. Only a timer, or the replay of its own event, runs a callback. */
async function handleStillGone<Tx>({ work, previous }: Missing<Tx>): Promise<Done<Tx> | Failed> {
  const { claim, subject } = work;
  if (claim.source === "timer") return await fireGone(work, previous);
  const type = goneType(subject.kind);
  const own = claim.replayed ? await work.options.store!.get(claim.eventId) : undefined;
  return own?.type === type ? await callGone(work, previous) : { state: "done", type };
}

/** Runs the callback for a record that is gone. */
async function callGone<Tx>(work: RecordWork<Tx>, previous: Snapshot): Promise<Done<Tx> | Failed> {
  const { options, claim, context, subject } = work;
  const { record, snapshot, changed, ...comparison } = goneRecordOf(subject, previous);
  const type = goneType(subject.kind);
  try {
    const event = { type, status: GONE, [subject.kind]: record, changed, ...comparison };
    const called = await runCallback(options, claim, context, event);
    return { state: "done", type, snapshot: { snapshot, changed }, ...called };
  } catch (error) {
    return callbackFailed(work, error, type);
  }
}

/** Runs the callback of a timer whose record is gone. */
async function fireGone<Tx>(work: RecordWork<Tx>, before: Snapshot): Promise<Done<Tx> | Failed> {
  const { record, previous } = goneRecordOf(work.subject, before);
  return await callTimer(work, { status: GONE, [work.subject.kind]: record, previous });
}
