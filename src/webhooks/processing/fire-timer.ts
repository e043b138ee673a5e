// An attempt at a timer. A change of its record comes before it: the callback of the change may move or clear the timer.

import { now } from "../../clock.ts";
import { StayhookError } from "../../errors.ts";
import { isLastAttempt } from "../../queue/wait-rules.ts";
import type { FurtherEvent } from "../../stores/event-store.ts";
import { rowIdOf } from "../../stores/firing-id.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import { ownId } from "../own-ids.ts";
import { eventType } from "../refs.ts";
import type { EventStays } from "../stay-change.ts";
import {
  callbackFor,
  changesBefore,
  type FiredTimer,
  timerEvent,
  timerId,
  timerKey,
  timerOf,
} from "../timer-rules.ts";
import { handleLook, staysIn } from "./change.ts";
import { recheckNow } from "./rechecks.ts";
import { compare, hasNewFields, keeping } from "./record.ts";
import { callbackFailed, type Done, type Ended, type RecordWork } from "./record-work.ts";
import { runCallback } from "./run-callback.ts";
import type { Look } from "./snapshots.ts";

/** How many changes in a row come before a timer. A record may differ at each read, and its timer must fire all the same. */
const MOST_CHANGES = 5;
/** The shortest and the longest wait of a timer for its record's first event, ms. A replay may end that event before its time. */
const [LEAST_WAIT, MOST_WAIT] = [100, 60_000];

/** Handles a timer whose record was found. */
export async function fireTimer<Tx>(work: RecordWork<Tx>, look: Look): Promise<Ended<Tx>> {
  const { claim, subject } = work;
  const { record } = look;
  const { changed, previous } = compare(claim.previous, look);
  const fields = { status: record.status, [subject.kind]: record, previous };
  const fire = () => callTimer(work, fields, staysIn(work, look));
  if (!claim.previous) return (await waitForFirst(work)) ?? (await fire());
  if (!changed) return learning(claim.previous, look, await fire());
  const change = asChange(work);
  const handle = async (): Promise<Ended<Tx>> => {
    try {
      return await handleLook(change, look, true);
    } catch (error) {
      return callbackFailed(change, error, eventType(subject.kind, record.status));
    }
  };
  return await handleBefore(work, handle, fire);
}

/** Adds the fields that a deployment has added to `track` to the snapshot of an unchanged record. */
function learning<Tx>(previous: Snapshot, look: Look, ended: Ended<Tx>): Ended<Tx> {
  if (ended.state !== "done" || !hasNewFields(previous, look)) return ended;
  const { fields } = keeping(previous, look);
  return { ...ended, snapshot: { snapshot: { ...previous, fields }, changed: false } };
}

/**
 * Handles a change of the timer's record in the timer's own attempt. Then the timer is due again at once, unless the
 * change's callback has moved or cleared it. If that callback fails in all attempts, the timer fires all the same, and
 * the change gets an event of its own.
 *
 * @param handle - handles the change
 * @param fire - fires the timer
 */
export async function handleBefore<Tx>(
  work: RecordWork<Tx>,
  handle: () => Promise<Ended<Tx>>,
  fire: () => Promise<Ended<Tx>>,
): Promise<Ended<Tx>> {
  const { claim, options } = work;
  if (changesBefore(claim) >= MOST_CHANGES) return await fire();
  const handled = await handle();
  if (handled.state === "done") return withTimer(work, handled);
  if (handled.state === "released") return handled;
  if (!isLastAttempt(handled, claim, options.queued!.limits)) return handled;
  const fired = await fire();
  return { ...fired, events: [...(fired.events ?? []), recheckNow(claim)] };
}

/** Returns the attempt's work as that of an event of the change, which the timer has found. */
export function asChange<Tx>(work: RecordWork<Tx>): RecordWork<Tx> {
  const { ref, claimedAt } = work.claim;
  const claim: ClaimedEvent = {
    ...work.claim,
    eventId: ownId("recheck", ref!),
    source: "recheck",
    timestamp: new Date(claimedAt).toISOString(),
    receivedAt: claimedAt,
    notification: null,
  };
  return { ...work, claim };
}

/** Adds to the end of a change the timer that has met it, unless the change's callback has moved or cleared the timer. */
function withTimer<Tx>({ claim }: RecordWork<Tx>, done: Done<Tx>): Done<Tx> {
  const timer = timerOf(claim);
  const own = timerId(claim.ref!, timer.name);
  const { events = [], remove } = done;
  const set = events.find(({ event }) => event.eventId === own);
  const isCleared = remove === "timers" || remove?.some((given) => rowIdOf(given).eventId === own) === true;
  const isKept = set ? set.event.timestamp === timer.at.toISOString() : !isCleared;
  if (!isKept) return done;
  const again = timerEvent(claim.ref!, timer.name, timer.at, claim.traceparent, changesBefore(claim) + 1);
  return { ...done, events: [...events.filter((each) => each !== set), { event: again, replace: "ended" }] };
}

/**
 * Lets the timer of a record without a snapshot wait until the record's first event has ended. The timer was set from
 * outside, and the callback of that event may clear it.
 *
 * @returns `undefined` if no event of the record waits but timers
 */
async function waitForFirst<Tx>(work: RecordWork<Tx>): Promise<Done<Tx> | undefined> {
  const { claim, options } = work;
  const { ref, traceparent } = claim;
  const found = await Promise.all(
    WAITING.map(([state, source]) => options.store!.list({ ref: ref!, state, source, limit: 1 })),
  );
  const dueAt = found.flat().map((event) => event.dueAt?.getTime() ?? 0);
  if (dueAt.length === 0) return undefined;
  const { name, at } = timerOf(claim);
  const dueIn = Math.min(Math.max(Math.min(...dueAt) - now(), LEAST_WAIT), MOST_WAIT);
  const event = timerEvent(ref!, name, at, traceparent);
  return { state: "done", type: timerTypeOf(work), events: [{ event, dueIn, replace: "ended" }] };
}

/** The states and sources of events that come before the timer of a record without a snapshot. */
const WAITING = (["pending", "retrying"] as const).flatMap((state) =>
  (["webhook", "reconcile", "recheck"] as const).map((source) => [state, source] as const),
);

/** Runs the callback of a timer. */
export async function callTimer<Tx>(
  work: RecordWork<Tx>,
  fields: object,
  stays: EventStays | undefined,
): Promise<Ended<Tx>> {
  const { options, claim, context } = work;
  const type = timerTypeOf(work);
  try {
    if (callbackFor(options.on, type) === undefined)
      throw new StayhookError(
        `\`on\` has no callback ${type} and no fallback. If an older version of the app runs, deploy the newer one.`,
      );
    const timer = timerOf(claim);
    const event = { type, ...fields, changed: false, changes: {}, timer };
    return { state: "done", type, ...(await runCallback(options, claim, context, event, stays)) };
  } catch (error) {
    return callbackFailed(work, error, type);
  }
}

export function timerTypeOf<Tx>({ claim, subject }: RecordWork<Tx>): string {
  return timerKey(subject.kind, timerOf(claim).name);
}

/** Returns the same timer of the record `ref`, unless that record's timer was set later than this one. */
export async function movedTo<Tx>(
  { claim, options }: RecordWork<Tx>,
  ref: string,
  { name, at }: FiredTimer,
): Promise<readonly FurtherEvent[]> {
  const event = timerEvent(ref, name, at, claim.traceparent);
  const known = await options.store!.get(event.eventId);
  const isNewer = known !== undefined && known.receivedAt.getTime() > claim.receivedAt;
  return isNewer ? [] : [{ event, replace: "moved" }];
}
