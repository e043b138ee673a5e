// What an attempt does to its event, computed once for all stores. A store writes it down.
// Three of its rules are written a second time, because a script or a single statement cannot call TypeScript:
// `replaces` in the Lua of Redis and in `settle` of PostgreSQL, `replacedBy` in the statements of every database, and
// `lostHistory` in the Lua of Redis.

import { isNeverRead } from "../account.ts";
import { now } from "../clock.ts";
import type { EventState, FailureReason } from "./event-states.ts";
import type { Outcome, Write } from "./event-store.ts";
import { clearedTime, rowIdOf } from "./firing-id.ts";
import type { Snapshot } from "./snapshot.ts";
import type { AddOptions } from "./store-options.ts";
import type { AttemptEntry, ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";

const DAY = 24 * 60 * 60_000;
/** The maximum wait of a retry, ms: 5 years. A wait of 1e300 ms would overflow the numbers and dates of a database. */
export const MAX_WAIT = 1826 * DAY;
/**
 * The maximum wait of a new event, ms: 1,000 years, because a timer may be that far away. A due time must be below 1e14,
 * because Lua writes larger numbers with an exponent.
 */
export const MAX_DELAY = 365_250 * DAY;

/** Rounds a wait to whole ms, from 0 to `most`. NaN becomes 0. */
export function clampWait(ms: number, most = MAX_WAIT): number {
  return Math.round(Math.min(Math.max(Number.isNaN(ms) ? 0 : ms, 0), most));
}

/** The maximum number of attempts in an event's history. */
export const HISTORY_LENGTH = 10;

/** A new event, with checked options. */
export interface Addition {
  readonly event: Pick<StoredEvent, keyof NewEvent>;
  /** ms until the event is due. An event with more than 0 ms is `scheduled`. */
  readonly dueIn: number;
  /** When the event is due, epoch ms by the store's clock. It wins over `dueIn`. */
  readonly dueAt: number | undefined;
  readonly replace: AddOptions["replace"];
  /** Tells a repeated call that found its own event from one that found another's. A new event keeps it as its `lease`. */
  readonly token: string | undefined;
}

/** Copies the event, because the caller may change it before the store writes it. */
export function additionOf(
  event: NewEvent,
  { dueIn = 0, dueAt, replace }: AddOptions = {},
  token?: string,
  toStoreTime: (at: number) => number = (at) => at,
): Addition {
  const { ref, source, topic, timestamp, notification, traceparent } = event;
  const { eventId } = rowIdOf(event.eventId);
  return {
    event: { eventId, ref, source, topic, timestamp, notification, traceparent: traceparent ?? null },
    ...dueOf(dueAt === undefined ? dueIn : dueAt.getTime() - now(), dueAt, toStoreTime),
    replace,
    token,
  };
}

function dueOf(wait: number, dueAt: Date | undefined, toStoreTime: (at: number) => number) {
  // An event whose wait is below 0 comes before the events of its record that have been due for a shorter time.
  const isPast = wait < 0 && dueAt === undefined;
  const dueIn = isPast ? -clampWait(-wait, MAX_DELAY) : clampWait(wait, MAX_DELAY);
  const isExact = dueAt !== undefined && dueIn > 0 && dueIn < MAX_DELAY;
  return { dueIn, dueAt: isExact ? Math.round(toStoreTime(dueAt.getTime())) : undefined };
}

/** Returns when an event is due, epoch ms. `now` is the store's time. */
export function dueTime(
  { dueIn, dueAt }: { readonly dueIn: number; readonly dueAt?: number | undefined },
  now: number,
): number {
  return dueAt ?? now + dueIn;
}

export function stateOfNew({ dueIn }: Addition): "pending" | "scheduled" {
  return dueIn > 0 ? "scheduled" : "pending";
}

/** What a claim found in the row of its event, and the end of the attempt adds to. */
export interface ClaimedRow {
  readonly history: readonly AttemptEntry[];
  readonly worker: string | undefined;
}

/** The columns of an event's row that the end of an attempt changes. */
export interface EventChange {
  readonly state: EventState;
  /** ms from now until the event is due. It is `null` for a done or parked event. */
  readonly dueIn: number | null;
  /** As {@link Addition.dueAt}. */
  readonly dueAt?: number | undefined;
  readonly attempts: number;
  readonly outages: number;
  /** Epoch ms by the store's clock. It is `null` if `outages` is 0. */
  readonly firstOutageAt: number | null;
  readonly failures: number;
  readonly refusals: number;
  readonly replayed: boolean;
  /** `undefined` keeps the row's type. */
  readonly type: string | undefined;
  readonly reason: FailureReason | null;
  readonly history: readonly AttemptEntry[];
  /** Whether the event loses its notification: an event without a record that is done. Its id stays known. */
  readonly dropsText: boolean;
  /** The event that takes the place of the ended one, recorded now. `undefined` if the event stays what it is. */
  readonly event: Addition["event"] | undefined;
}

/** One `settle`, as a store writes it down in one atomic step. */
export interface Settlement<Tx> {
  readonly claim: ClaimedEvent;
  /** The new values of the claim's event. */
  readonly change: EventChange;
  /** ms from now before which no pending or retrying event of the record may be due. */
  readonly delay: number | undefined;
  /** The snapshot to write. It is `undefined` if the event has no record. */
  readonly record: { readonly snapshot: Snapshot; readonly changed: boolean } | undefined;
  /** The ledger to write: `null` deletes it, and `undefined` keeps it. */
  readonly ledger: string | null | undefined;
  readonly writes: readonly Write<Tx>[];
  /** The events of the record to delete, unless they are done. Never the claim's own event. */
  readonly remove: readonly string[] | "timers" | undefined;
  /** The events to record after `remove`, each id once. Never the claim's own event. */
  readonly additions: readonly Addition[];
}

/** Computes what an outcome does to the row of a claim's event, and to other rows. */
export function settlementOf<Tx>(
  claim: ClaimedEvent,
  row: ClaimedRow,
  outcome: Outcome<Tx>,
  toStoreTime?: (at: number) => number,
): Settlement<Tx> {
  const ended = endOf(claim, row, outcome);
  const additions = lastOfEach(
    (outcome.events ?? []).map(({ event, ...options }) => additionOf(event, options, undefined, toStoreTime)),
  );
  const own = additions.find(({ event }) => event.eventId === claim.eventId);
  const delay = outcome.state === "retrying" && outcome.holdsRecord ? ended.dueIn! : undefined;
  return {
    claim,
    change: delayed(changeOf(claim, outcome, ended, own), delay),
    delay,
    record: outcome.state === "done" && claim.ref !== null ? copyOf(outcome.record) : undefined,
    ledger: outcome.ledger === undefined || claim.ref === null ? undefined : outcome.ledger || null,
    writes: (outcome.state === "done" && outcome.writes) || [],
    remove:
      outcome.remove === "timers"
        ? outcome.remove
        : outcome.remove
            ?.map((given) => rowIdOf(given).eventId)
            .filter((eventId) => eventId !== claim.eventId),
    additions: additions.filter((addition) => addition !== own),
  };
}

function endOf(claim: ClaimedEvent, { history, worker }: ClaimedRow, outcome: Outcome<never>): EventChange {
  const { attempts, outages, failures, refusals, replayed, claimedAt } = claim;
  const firstOutageAt = outages > 0 ? claimedAt - claim.outageFor : null;
  const kept = { type: undefined, history, dropsText: false, event: undefined };
  const same = { attempts, outages, firstOutageAt, failures, refusals, replayed, ...kept };
  if (outcome.state === "released") {
    const isFirst = attempts === 1 && outages + failures + refusals === 0;
    const reason = isFirst ? null : (history.at(-1)?.reason ?? null);
    return {
      ...same,
      state: isFirst ? "pending" : "retrying",
      dueIn: 0,
      // The attempt has recorded what it begins. Its event keeps its place among those that are due.
      dueAt: outcome.ledger === undefined ? undefined : claim.dueAt.getTime(),
      attempts: attempts - 1,
      ...(outcome.found && { failures: 0, refusals: 0 }),
      reason,
    };
  }
  const ended = {
    ...same,
    type: outcome.type,
    reason: outcome.state === "done" ? null : outcome.reason,
    history: historyWith(history, {
      at: new Date(claimedAt),
      duration: outcome.entry.duration,
      outcome: outcome.state,
      ...(outcome.entry.reason !== undefined && { reason: outcome.entry.reason }),
      ...(outcome.entry.error !== undefined && { error: outcome.entry.error }),
      ...(worker !== undefined && { worker }),
      ...(outcome.state === "done" && changesOf(claim.previous, outcome.record)),
    }),
  };
  if (outcome.state === "parked")
    return { ...ended, state: outcome.state, dueIn: null, ...countsAfter(claim, outcome) };
  if (outcome.state === "done")
    return { ...ended, state: outcome.state, dueIn: null, dropsText: isNeverRead(claim) };
  return { ...ended, state: outcome.state, dueIn: clampWait(outcome.in), ...countsAfter(claim, outcome) };
}

/** Computes the counts of an event after an attempt that failed. */
function countsAfter(
  claim: ClaimedEvent,
  { count = "call", found = false, reason }: Extract<Outcome, { readonly state: "retrying" | "parked" }>,
): Pick<EventChange, "attempts" | "failures" | "refusals" | "outages" | "firstOutageAt"> {
  const { attempts, failures, refusals, claimedAt } = claim;
  const isOut = count === "nothing";
  const row = uncountedOf(claim, kindOfUncounted(reason));
  return {
    attempts: count === "call" ? attempts : attempts - 1,
    failures: (found ? 0 : failures) + Number(count === "failure"),
    refusals: (found ? 0 : refusals) + Number(count === "refusal"),
    outages: isOut ? row.outages + 1 : 0,
    firstOutageAt: isOut ? claimedAt - row.outageFor : null,
  };
}

/** What does not count: an outage, or a refusal while the platform may hide the record or is flooded with forged ones. */
type Uncounted = "outage" | "refusal";

/** All but an outage stands as a refusal. */
export function kindOfUncounted(reason: AttemptEntry["reason"]): Uncounted {
  return reason === "unavailable" ? "outage" : "refusal";
}

/** Returns how many attempts of a kind in a row did not count, and for how long. One of the other kind begins a new row. */
export function uncountedOf(
  { outages, outageFor, lastFailure }: Pick<ClaimedEvent, "outages" | "outageFor" | "lastFailure">,
  kind: Uncounted,
): Pick<ClaimedEvent, "outages" | "outageFor"> {
  return kindOfUncounted(lastFailure?.reason) === kind
    ? { outages, outageFor }
    : { outages: 0, outageFor: 0 };
}

/** Returns the last attempt that failed. A lost attempt has no reason. */
export function lastFailureOf(history: readonly AttemptEntry[]): AttemptEntry | undefined {
  return history.findLast(({ reason }) => reason !== undefined);
}

/** Returns how a record differs from the snapshot that its attempt found, for the history. */
function changesOf(
  previous: Snapshot | undefined,
  record: Settlement<never>["record"],
): Pick<AttemptEntry, "changes"> | undefined {
  if (previous === undefined || !record?.changed) return undefined;
  const now: Snapshot["fields"] = { status: record.snapshot.status, ...record.snapshot.fields };
  const known = Object.entries({ status: previous.status, ...previous.fields });
  const changed = known.flatMap(([name, from]) => {
    const to = now[name];
    return to === undefined || to === from ? [] : [[name, { from, to }]];
  });
  return changed.length > 0 ? { changes: Object.fromEntries(changed) } : undefined;
}

/** Whether an addition takes the place of a known event that no attempt is processing. */
export function replaces(
  { event, replace }: Addition,
  known: { readonly ref: string | null; readonly timestamp: string },
  state: EventState,
): boolean {
  if (known.ref !== event.ref) return false;
  if (replace === "ended") return state === "done" || state === "parked";
  return replace === "moved" && known.timestamp !== event.timestamp;
}

/** @param own - the addition with the id of the claim's own event */
function changeOf(
  claim: ClaimedEvent,
  outcome: Outcome<never>,
  ended: EventChange,
  own: Addition | undefined,
): EventChange {
  if (own !== undefined) return replaces(own, claim, ended.state) ? replacedBy(own, ended) : ended;
  return isCleared(claim, outcome) ? clearedBy(claim, ended) : ended;
}

/** The event that takes the place of the ended one waits, too, if it is due at once. */
function delayed(change: EventChange, delay: number | undefined): EventChange {
  if (delay === undefined || change.state !== "pending") return change;
  return { ...change, dueIn: delay, dueAt: undefined };
}

/** Whether the attempt of a timer has cleared the timer itself. */
function isCleared({ eventId, source }: ClaimedEvent, outcome: Outcome<never>): boolean {
  if (source !== "timer" || outcome.state !== "done" || outcome.remove === undefined) return false;
  return outcome.remove === "timers" || outcome.remove.some((given) => rowIdOf(given).eventId === eventId);
}

function clearedBy(claim: ClaimedEvent, ended: EventChange): EventChange {
  const timestamp = clearedTime(claim.timestamp);
  const notification = ended.dropsText ? null : claim.notification;
  return { ...ended, event: additionOf({ ...claim, timestamp, notification }).event };
}

function replacedBy(addition: Addition, { history }: EventChange): EventChange {
  return {
    state: stateOfNew(addition),
    dueIn: addition.dueIn,
    dueAt: addition.dueAt,
    attempts: 0,
    outages: 0,
    firstOutageAt: null,
    failures: 0,
    refusals: 0,
    replayed: false,
    type: undefined,
    reason: null,
    history: historyOfReplaced(addition.event, history),
    dropsText: false,
    event: addition.event,
  };
}

/** Returns the history that a replaced event begins with. The history of a timer shows the attempts of one firing. */
export function historyOfReplaced(
  { source }: Addition["event"],
  history: readonly AttemptEntry[],
): readonly AttemptEntry[] {
  return source === "timer" ? [] : history;
}

/** Returns the history of an event whose lease has ended at `leaseEnd`. Times are epoch ms by the store's clock. */
export function lostHistory(
  { history, worker }: ClaimedRow,
  claimedAt: number,
  leaseEnd: number,
): readonly AttemptEntry[] {
  return historyWith(history, {
    at: new Date(claimedAt),
    duration: Math.max(0, leaseEnd - claimedAt),
    outcome: "lost",
    ...(worker !== undefined && { worker }),
  });
}

/** Returns when a restored event became done or parked. A parked event shows it only in its history. */
export function endedAtOf({ doneAt, history, receivedAt }: StoredEvent): Date {
  const last = history.at(-1);
  return doneAt ?? (last === undefined ? receivedAt : new Date(last.at.getTime() + last.duration));
}

function historyWith(history: readonly AttemptEntry[], entry: AttemptEntry): readonly AttemptEntry[] {
  return [...history, entry].slice(-HISTORY_LENGTH);
}

/** Keeps the last of the additions with the same id, because a statement cannot write a row twice. */
function lastOfEach(additions: readonly Addition[]): readonly Addition[] {
  if (additions.length < 2) return additions;
  return [...new Map(additions.map((addition) => [addition.event.eventId, addition])).values()];
}

/** Copies a snapshot that a caller passes or gets, because the caller may change it. */
export function copyOfSnapshot({ status, fields, known }: Snapshot): Snapshot {
  return { status, fields: { ...fields }, ...(known !== undefined && { known }) };
}

function copyOf(record: Settlement<never>["record"]): Settlement<never>["record"] {
  return record && { snapshot: copyOfSnapshot(record.snapshot), changed: record.changed };
}

/** Whether a snapshot has all that another one has, and may have further fields. */
export function hasAllOf(snapshot: Snapshot, other: Snapshot): boolean {
  return (
    snapshot.status === other.status &&
    snapshot.known === other.known &&
    Object.keys(other.fields).every(
      (name) => Object.hasOwn(snapshot.fields, name) && snapshot.fields[name] === other.fields[name],
    )
  );
}
