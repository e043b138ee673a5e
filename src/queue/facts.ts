// The facts that the rules of a queue are told, and what a failure counts as.

import { uncountedOf } from "../stores/outcomes.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { AGAIN, CHECK, type Gate, isOfRecord, letsRead, type Read } from "./gate.ts";
import { dueInOf } from "./plan.ts";
import type { QueueState } from "./state.ts";
import type { Circumstances, Count } from "./wait-rules.ts";
import { type Lane, type Outage, recordOf, type WorkFailure } from "./work.ts";

/** One attempt, as the rules know it. */
export interface Reading {
  readonly claim: ClaimedEvent;
  readonly lane: Lane;
  readonly read: Read;
  /** When the attempt began, on the monotonic clock. */
  readonly startedAt: number;
  /** Whether it has used up one of the limited reads. */
  hasRead: boolean;
  /** Whether it has read its record. */
  found: boolean;
}

/** An attempt begins. It becomes the try of each shut gate of its lane that has none. */
export function began({ gates, laneOf }: QueueState, claim: ClaimedEvent): Reading {
  const lane = laneOf(claim);
  const read = gates.begin(recordOf(claim), lane, { key: claim.eventId });
  return { claim, lane, read, startedAt: performance.now(), hasRead: false, found: false };
}

/** The platform has answered the attempt, with its record or with another one. */
export function answered({ gates, floods }: QueueState, reading: Reading, what: "record" | "another"): void {
  // An event without a kind needs no read, so its success does not show that reads succeed.
  if (reading.lane.kind === undefined) return;
  reading.hasRead = true;
  gates.answered(reading.read);
  if (what === "another") return;
  reading.found = true;
  floods.answered(reading.lane);
}

/** A callback begins. If the attempt was a try and read nothing, another one may be the try now. */
export function calls({ gates }: QueueState, { read }: Reading): void {
  gates.end(read);
}

/** The attempt has failed. Returns what decides about its next one. */
export function failed(state: QueueState, reading: Reading, failure: WorkFailure): Circumstances {
  state.floods.expire();
  const { lane, found, startedAt } = reading;
  const { refused, answered: isAnswer = true, outage } = failure;
  reading.hasRead ||= (refused && isAnswer) || outage !== undefined;
  const isAlone = outage !== undefined && noteOutage(state, reading, outage, failure.error);
  const count = outage
    ? isAlone && isOfRecord(outage)
      ? "failure"
      : "nothing"
    : countOf(state, reading, failure);
  const now = performance.now();
  return { duration: now - startedAt, count, found, shutFor: dueInOf(state, lane, now), isAlone };
}

/** @returns whether the platform has answered others of the lane meanwhile */
function noteOutage(
  { gates, floods }: QueueState,
  reading: Reading,
  outage: Outage,
  error: unknown,
): boolean {
  const { claim, lane, read } = reading;
  const isFirst = claim.failures + uncountedOf(claim, "outage").outages === 0;
  const isAlone = gates.failed(read, {
    outage,
    error,
    isFirst,
    since: isFirst ? undefined : failedAt(reading),
  });
  if (outage.limited) floods.slowDown(lane.account);
  return isAlone;
}

/** When the event's last attempt failed, in whichever process, on the monotonic clock. */
function failedAt({ claim: { lastFailure, claimedAt }, startedAt }: Reading): number {
  return startedAt - (lastFailure ? claimedAt - lastFailure.at.getTime() - lastFailure.duration : 0);
}

function countOf({ gates, floods }: QueueState, { claim, lane, read }: Reading, failure: WorkFailure): Count {
  const { error, refused, answered: isAnswer = true } = failure;
  if (!refused) return "call";
  // A refusal shows that the platform is up.
  if (isAnswer) gates.answered(read, { isRefusal: true });
  if (claim.previous !== undefined) return "refusal";
  const isFirst = claim.refusals + uncountedOf(claim, "refusal").outages === 0;
  if (isAnswer) floods.refused(lane, recordOf(claim), { error, isFirst });
  return floods.isInFlood(lane) ? "nothing" : "refusal";
}

/** The attempt has ended, with a result or without one. */
export function ended({ gates, floods }: QueueState, { read, lane, hasRead }: Reading): void {
  gates.end(read);
  if (!hasRead) floods.giveBack(lane);
}

/** An event has arrived here. If the other gates let it, it may be the try of the widest one in its way at once. */
export function arrived(
  { gates, laneOf }: QueueState,
  event: Pick<NewEvent, "eventId" | "ref">,
  now: number,
): void {
  const lane = laneOf(event);
  const [widest, ...others] = lane.kind === undefined ? [] : gates.shutOf(lane);
  if (widest !== undefined && others.every((gate) => letsRead(gate, now, true)))
    gates.look(widest, { fresh: { eventId: event.eventId, lane } });
}

/** The queue looks for the try of a gate. If it finds none, it waits before it looks again. */
export function looksForTry({ gates }: QueueState, gate: Gate, now: number): void {
  gates.look(gate, { quietUntil: now + AGAIN });
}

/** The queue looks whether anything waits behind a gate. @returns whether the answer is needed */
export function looksBehind({ gates }: QueueState, gate: Gate, now: number): boolean {
  gates.look(gate, { checkAt: now + CHECK });
  return gates.mayOpen(gate);
}

/** The store has told when an event is due that keeps a gate shut: in so many ms, or never. */
export function waitsBehind({ gates }: QueueState, gate: Gate, dueIn: number | undefined, now: number): void {
  if (dueIn !== undefined) gates.look(gate, { quietUntil: now + Math.min(Math.max(dueIn, AGAIN), CHECK) });
  else if (gates.mayOpen(gate)) gates.open(gate);
}
