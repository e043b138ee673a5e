// The things of a stay: the plan that each event of a booking makes, and the events of the things themselves.

import { accountOf } from "../../account.ts";
import type { Booking } from "../../models/records.ts";
import type { Work } from "../../queue/work.ts";
import { StaysEngine } from "../../stays/engine.ts";
import type { Planned, Reading, ThingCall } from "../../stays/plans.ts";
import { leftAlone, originOf, thingType } from "../../stays/thing-events.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import type { EventStays } from "../stay-change.ts";
import { recheckNow } from "./rechecks.ts";
import { BeforeCall, callbackFailed, type Ended, type RecordWork, type WorkOptions } from "./record-work.ts";
import { CollectedWrites } from "./run-callback.ts";

/** What an attempt has read of a booking. */
export interface Found {
  /** `undefined` if the booking is gone. */
  readonly booking: Booking | undefined;
  readonly stays: EventStays;
  /** The house that the platform names now. It is `undefined` if it cannot be read. */
  readonly listingId?: number | undefined;
  /** As that of {@link Reading}. */
  readonly readFor?: number | undefined;
  /** Why the booking has no time zone. */
  readonly zoneProblem?: unknown;
  /** Whether the booking differs from its snapshot. */
  readonly changed: boolean;
}

/**
 * Makes the plan of a booking that was read, then handles its event. The plan is recorded with the end of the attempt, or, if
 * a callback is to run, before: one that throws, hangs or kills its process must hold no thing up.
 */
export async function withPlan<Tx>(
  work: RecordWork<Tx>,
  found: Found | undefined,
  handle: (work: RecordWork<Tx>) => Promise<Ended<Tx>>,
): Promise<Ended<Tx>> {
  const { claim, context, options } = work;
  const { things } = options;
  if (!things || !found) return claim.source === "thing" ? leftBehind(work) : await handle(work);
  const reading = readingOf(claim, found);
  const planned = await things.plan(reading);
  const calling = (): never => {
    throw new BeforeCall(StaysEngine.first(reading, planned));
  };
  const ended =
    claim.source === "thing"
      ? await handleThing(work, things, { found, reading, planned })
      : await handle(planned.isNew ? { ...work, context: { ...context, calling } } : work);
  if (ended.state === "released") options.queued?.recent.lend(claim);
  if (ended.state === "released" || claim.source === "thing") return ended;
  const { ledger, events = [], remove } = planned.changes;
  const both = { ledger, events: [...events, ...(ended.events ?? [])] };
  if (ended.state === "failed") return { ...ended, ...both, remove };
  return { ...ended, ...both, remove: ended.remove ?? remove };
}

function readingOf(claim: ClaimedEvent, { booking, stays, listingId, readFor, zoneProblem }: Found): Reading {
  const { from, to, timeZone, problem } = stays;
  const account = accountOf(claim);
  const base = { claim, booking, from, to, timeZone, account, readFor };
  // If no stay holds, nothing is wanted, and nothing needs a zone.
  if (zoneProblem !== undefined && (to || problem))
    return { ...base, to: undefined, problem: { error: zoneProblem, listingId } };
  return problem && !from ? { ...base, problem: { error: problem } } : base;
}

/** An event of a thing, and the plan that it has made. */
interface ThingAttempt {
  readonly found: Found;
  readonly reading: Reading;
  readonly planned: Planned;
}

async function handleThing<Tx>(
  work: RecordWork<Tx>,
  things: StaysEngine,
  { found, reading, planned }: ThingAttempt,
): Promise<Ended<Tx>> {
  const { claim } = work;
  const type = thingType(claim);
  // Its own event runs the callback of `on`.
  const change = found.changed && claim.previous ? [recheckNow(claim)] : [];
  const { name } = originOf(claim);
  const { changes, isNew, problem } = planned;
  const events = [...(changes.events ?? []), ...change];
  if (name === undefined && problem) {
    work.options.queued?.recent.drop(claim.ref);
    return { state: "failed", reason: "callback", error: problem.error, type, ...changes, events };
  }
  const step = name === undefined ? undefined : await things.next(reading, planned);
  // What the call begins must be in the ledger before it begins.
  if (isNew && step?.call) return { state: "released", ...StaysEngine.first(reading, planned), events };
  if (step?.call === undefined && step?.isLater)
    return { state: "released", ...step.changes, events: [...(step.changes.events ?? []), ...change] };
  if (!step?.call) {
    // What the event records of itself is made of this plan.
    const own = step?.changes;
    return {
      state: "done",
      type,
      ledger: own?.ledger ?? changes.ledger,
      events: [...events, ...(own?.events ?? [])],
      remove: [...(changes.remove ?? []), ...(own?.remove ?? [])],
    };
  }
  const ended = await callThing(work, step);
  return ended.state === "released" ? ended : { ...ended, events: [...(ended.events ?? []), ...change] };
}

/** Calls the function of a thing. */
async function callThing<Tx>(work: Omit<RecordWork<Tx>, "subject">, step: ThingCall): Promise<Ended<Tx>> {
  const { claim, context, options } = work;
  const type = thingType(claim);
  const { name } = originOf(claim);
  const collected = new CollectedWrites<Tx>(options.store, (method) => `${method}() of the thing ${name}`);
  context.noted(step.during);
  context.calling();
  try {
    const { attempts: attempt } = claim;
    const { signal } = context;
    const { atomically } = collected;
    const returned = await step.call({ ...step.fields, attempt, signal, atomically });
    return { state: "done", type, writes: collected.writes, ...step.after(returned) };
  } catch (error) {
    return callbackFailed(work, error, type);
  } finally {
    collected.end();
  }
}

/** Forgets a booking 30 days after its last check-out, and ends what may exist when its time is over. Needs no read. */
export async function forget<Tx>({ claim, options }: RecordWork<Tx>): Promise<Ended<Tx> | undefined> {
  if (claim.source !== "thing" || !originOf(claim).forgets || !options.things) return undefined;
  return { state: "done", type: thingType(claim), ...(await options.things.forgotten(claim)) };
}

/** A handler without `stays` lets the events of things wait: another version of the app may have it. */
function leftBehind<Tx>({ claim, options }: RecordWork<Tx>): Ended<Tx> {
  options.log.limited(
    "things",
    "warn",
    `the store has things of ${claim.ref}, and the handler has no option \`stays\`. They stay as they are`,
    { ref: claim.ref },
  );
  return { state: "done", type: thingType(claim), events: [leftAlone(claim, claim.claimedAt)] };
}

/** Returns the work that ends a thing from the ledger, where its event would be parked for want of a read. */
export function lastResortOf<Tx>(options: WorkOptions<Tx>): (claim: ClaimedEvent) => Work<Tx> | undefined {
  return (claim) => {
    const step = claim.source === "thing" ? options.things?.withoutRead(claim, accountOf(claim)) : undefined;
    if (!step) return undefined;
    // The lane of the claim's record stays shut: nothing was read.
    return (_, context) => callThing({ options, claim, context }, step);
  };
}
