// Says what may begin: the one place. All functions here are pure. They read a state and a time, and ask nobody.
//
// The common claim takes the events of all records but those that have a reason to wait: behind shut gates, in limited lanes,
// and of accounts that have their share of the slots. Shut gates and limited lanes get tasks instead: one try for each gate,
// and the reads that the limit allows. An account with its share waits. A claim arrives some time after it was planned, so
// that `stepOf` looks at the state again.

import { uncountedOf } from "../stores/outcomes.ts";
import type { ClaimOptions } from "../stores/store-options.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { fullAt, inAgainAt, isFull, roomAt } from "./fairness.ts";
import { CHECK, type Gate, letsRead, waitOf } from "./gate.ts";
import { freeSlots, type QueueState } from "./state.ts";
import { type Lane, laneKey, lanesOf } from "./work.ts";

/** The longest wait for an event that is due later, ms. The wall clock may jump ahead meanwhile, as after a suspend. */
const LONGEST_SLEEP = 30_000;
/** How often a store that cannot notify is asked for events, ms. */
export const POLL = 1000;
/** The shortest wait after a claim that got no event, although the store reports a due event, ms. */
const NOTHING_AFTER_ALL = 25;
/** How many of the newest events are claimed for a try, one after the other, until one can be claimed. */
const MOST_CHOSEN = 3;
/** A drain without a timeout ends when the platform has refused every record for this long, ms. */
const ONLY_REFUSED = 60_000;

/** How an event comes to be claimed. */
export interface How {
  /** Whether the common claim takes it. */
  readonly isCommon?: boolean;
  /** Whether it has just arrived, so that it may be the try of a shut gate before its time. */
  readonly isFresh?: boolean;
  /** Whether it was chosen for its lane, so that the limit of reads does not hold it up. */
  readonly isChosen?: boolean;
  /** Whether it was claimed only to be parked without a read. */
  readonly givesUp?: boolean;
}

const CHOSEN: How = { isChosen: true };
/** The way of an event that has just arrived. */
export const FRESH: How = { isFresh: true, isChosen: true };

/** Why events wait although they are due. */
interface Reason {
  /** The lanes that a claim of no lane leaves out. A lane without a kind stands for all events of its account. */
  readonly out: (state: QueueState, how: How, now: number) => readonly Lane[];
  /** Whether an event of the lane may begin. */
  readonly lets: (state: QueueState, lane: Lane, how: How, now: number) => boolean;
  /** When lanes may be in again although no fact comes, on the monotonic clock. */
  readonly endsAt?: (state: QueueState, now: number) => number;
  /** ms until an event of the lane is due that has just failed. `undefined` if the reason does not hold it up. */
  readonly dueIn?: (state: QueueState, lane: Lane, now: number) => number | undefined;
}

/** All reasons to wait. */
const reasons: readonly Reason[] = [
  {
    // The platform is out of reach. Tasks claim the tries of shut gates.
    out: ({ gates }, { isCommon }, now) =>
      gates.shut
        .filter((gate) => isCommon || !letsRead(gate, now, false))
        .flatMap(({ lane }) => lanesOf(lane)),
    lets: ({ gates }, lane, { isFresh }, now) => gates.lets(lane, now, isFresh),
    dueIn: ({ gates }, lane, now) => gates.dueIn(now, lane),
  },
  {
    // Strangers send notifications. Tasks choose the events of limited lanes.
    out: ({ floods }, { isChosen }) => (isChosen ? [] : floods.limited),
    lets: ({ floods }, lane, { isChosen }) => isChosen === true || !floods.isLimited(lane),
  },
  {
    // The account has its share of the slots. A try, and a request for its own event, may exceed it.
    out: ({ fairness }, { isCommon }, now) =>
      isCommon ? fullAt(fairness, now).map((account) => ({ account, kind: undefined })) : [],
    lets: ({ fairness }, { account }, { isCommon }, now) => !isCommon || !isFull(fairness, account, now),
    endsAt: ({ fairness }, now) => inAgainAt(fairness, now),
  },
];

/** Whether no reason holds an event of the lane up. */
function lets(state: QueueState, lane: Lane, how: How, now: number): boolean {
  return reasons.every((reason) => reason.lets(state, lane, how, now));
}

/** Returns ms until an event of the lane is due that has just failed. `undefined` if its own wait alone decides. */
export function dueInOf(state: QueueState, lane: Lane, now: number): number | undefined {
  const waits = reasons.flatMap(({ dueIn }) => dueIn?.(state, lane, now) ?? []);
  return waits.length > 0 ? Math.max(...waits) : undefined;
}

/** The beginnings of the records that a claim of no lane leaves out. */
export function exceptOf(state: QueueState, how: How, now: number): string[] {
  const lanes = reasons.flatMap((reason) => reason.out(state, how, now));
  return [...state.strays(), ...lanes.map(state.beginningOf)];
}

/** A claim of the events that are due first. */
export interface CommonClaim {
  readonly limit: number;
  /** How many events to claim besides, which then wait for slots. */
  readonly ahead: number;
}

/** What is done beside the common claim. Only one task of a name runs at a time. */
export type Task =
  | { readonly name: string; readonly kind: "fresh"; readonly gate: Gate; readonly eventId: string }
  | { readonly name: string; readonly kind: "try" | "check"; readonly gate: Gate }
  | { readonly name: string; readonly kind: "read"; readonly lane: Lane }
  | { readonly name: "poll" | "pass" | "give up"; readonly kind: "poll" | "pass" | "give up" };

export interface Plan {
  readonly common: CommonClaim | undefined;
  readonly tasks: readonly Task[];
  /** When to plan again if nothing is claimed or changes before, on the monotonic clock. */
  readonly wakeAt: number;
}

/** What one loop knows of the store: that of this process, or a drain. */
export interface View {
  /** When the common claim is likely to find an event, on the monotonic clock. */
  dueAt: number;
  /** The version of the state at the last common claim. If it differs now, other events may be claimed than then. */
  version: number;
  /** How many events may be claimed ahead of their slots. A drain claims none. */
  readonly ahead: () => number;
}

/** When the tasks look at the store again, on the monotonic clock. */
export interface Looks {
  /** The tasks that run, by name. */
  readonly running: Pick<ReadonlySet<string>, "has">;
  /** By lane: when a limited lane looks again, because it found nothing. */
  readonly quietUntil: Map<string, number>;
  /** Until when no task begins, because the store failed. */
  failedUntil: number;
  pollAt: number;
  giveUpAt: number;
  passAt: number;
  /** Whether another process may have recorded an event since the last poll. */
  mayHaveArrived: boolean;
}

/** Plans what begins now, and when to plan again. */
export function plan(state: QueueState, looks: Looks, view: View, now: number): Plan {
  const common = commonClaim(state, view, now);
  const { tasks, wakeAt } = tasksAt(state, looks, now);
  return { common, tasks, wakeAt: Math.min(wakeAt, view.dueAt > now ? view.dueAt : Infinity) };
}

/** Grows when other events may be claimed than before. */
export function versionOf({ gates, floods, fairness }: QueueState): number {
  return gates.version + floods.version + fairness.version;
}

/** Plans the common claim, if it is likely to find an event, and there is room. */
export function commonClaim(state: QueueState, view: View, now: number): CommonClaim | undefined {
  const { fairness, isClosed } = state;
  if (view.dueAt > now && view.version === versionOf(state)) return undefined;
  if (isClosed || needsPass(state)) return undefined;
  const most = roomAt(fairness, now);
  const limit = Math.max(0, Math.min(freeSlots(state), most));
  const ahead = Math.min(view.ahead(), most - limit);
  return limit + ahead > 0 ? { limit, ahead } : undefined;
}

/**
 * Says when a common claim is likely to find an event again, on the monotonic clock.
 *
 * @param claimed - how many events the last one got
 * @param dueIn - ms until the next event is due; `Infinity` if none waits
 */
export function nextClaimAt(state: QueueState, claimed: number, dueIn: number, now: number): number {
  const wait = Math.max(dueIn, claimed === 0 ? NOTHING_AFTER_ALL : 0);
  // If no event waits, the store calls its subscriber.
  const at = wait === Infinity && state.isWoken ? Infinity : lookAt(state, wait, now);
  return Math.min(at, ...reasons.map(({ endsAt }) => endsAt?.(state, now) ?? Infinity));
}

/** Says when to look for an event that is due in so many ms, on the monotonic clock. */
export function lookAt({ isWoken }: QueueState, dueIn: number, now: number): number {
  return now + Math.min(dueIn, isWoken ? LONGEST_SLEEP : POLL);
}

/** Whether anything is left out of the common claim that needs tasks. */
export function needsTasks({ gates, floods }: QueueState): boolean {
  return gates.shut.length > 0 || floods.limited.length > 0;
}

/** Plans the tasks: the tries of shut gates, the reads of limited lanes, and what looks after both. */
export function tasksAt(
  state: QueueState,
  looks: Looks,
  now: number,
): { readonly tasks: readonly Task[]; readonly wakeAt: number } {
  if (!needsTasks(state)) return { tasks: [], wakeAt: Infinity };
  if (now < looks.failedUntil) return { tasks: [], wakeAt: looks.failedUntil };
  const { gates, floods, isWoken, policy } = state;
  const { shut } = gates;
  const begun: Begun = { tasks: [], slots: freeSlots(state), wakeAt: now + CHECK };
  for (const gate of shut) beginTry(state, looks, begun, gate, now);
  for (const lane of floods.limited) beginReads(state, looks, begun, lane, now);
  if (shut.length > 0) {
    const polls = looks.mayHaveArrived || !isWoken;
    if (polls) beginAt(looks, begun, { name: "poll", kind: "poll" }, looks.pollAt, now);
    if (Number.isFinite(policy.giveUpAfter))
      beginAt(looks, begun, { name: "give up", kind: "give up" }, looks.giveUpAt, now);
    if (needsPass(state)) beginAt(looks, begun, { name: "pass", kind: "pass" }, looks.passAt, now);
  }
  return begun;
}

/** Whether tasks claim the events that read no record. While everything is shut, the store cannot leave out all accounts by name. */
export function needsPass({ gates, hasAccounts }: QueueState): boolean {
  return gates.isAllShut && hasAccounts;
}

/** The tasks that were planned so far, and the slots that are left. */
interface Begun {
  readonly tasks: Task[];
  slots: number;
  wakeAt: number;
}

function beginAt(looks: Looks, begun: Begun, task: Task, at: number, now: number): void {
  if (at > now) begun.wakeAt = Math.min(begun.wakeAt, at);
  else if (!looks.running.has(task.name)) begun.tasks.push(task);
}

/** Plans the try of a gate, or the check whether anything waits behind it. */
function beginTry(state: QueueState, looks: Looks, begun: Begun, gate: Gate, now: number): void {
  const { name, fresh } = gate;
  if (gate.try !== undefined || looks.running.has(name)) return;
  const wait = waitOf(gate, now);
  if (begun.slots > 0 && fresh && lets(state, fresh.lane, FRESH, now)) {
    begun.slots -= 1;
    begun.tasks.push({ name, kind: "fresh", gate, eventId: fresh.eventId });
  } else if (wait > 0 && now >= gate.checkAt) begun.tasks.push({ name, kind: "check", gate });
  else if (begun.slots > 0 && wait <= 0 && now >= gate.quietUntil && mayTry(state, looks, begun, gate, now)) {
    begun.slots -= 1;
    begun.tasks.push({ name, kind: "try", gate });
  } else {
    const tryAt = Math.max(now + wait, gate.quietUntil);
    const freshIn = fresh ? waitOf(gate, now, true) : 0;
    const next = Math.min(tryAt, wait > 0 ? gate.checkAt : Infinity, freshIn > 0 ? now + freshIn : Infinity);
    if (next > now) begun.wakeAt = Math.min(begun.wakeAt, next);
  }
}

/** Whether a try may go through all other gates. If a wider gate is due, too, its try goes first and serves both. */
function mayTry(state: QueueState, looks: Looks, begun: Begun, gate: Gate, now: number): boolean {
  const { gates } = state;
  const isTaken = (name: string): boolean =>
    looks.running.has(name) || begun.tasks.some((task) => task.name === name);
  const isFree = (lane: Lane): boolean =>
    lets(state, lane, CHOSEN, now) && !gates.shutOf(lane).some((each) => isTaken(each.name));
  return isOfAll(state, gate) || lanesOf(gate.lane).some(isFree);
}

/** Plans the reads of a limited lane. */
function beginReads(state: QueueState, looks: Looks, begun: Begun, lane: Lane, now: number): void {
  const name = laneKey(lane);
  const at = Math.max(now + state.floods.waitAt(lane, now), looks.quietUntil.get(name) ?? now);
  if (at > now) begun.wakeAt = Math.min(begun.wakeAt, at);
  else if (begun.slots > 0 && isOpen(state, lane, now) && !looks.running.has(name)) {
    begun.slots -= 1;
    begun.tasks.push({ name, kind: "read", lane });
  }
}

/** Whether a limited lane may be read when its limit allows it. */
function isOpen(state: QueueState, lane: Lane, now: number): boolean {
  return !state.gates.isShut(lane) && lets(state, lane, CHOSEN, now);
}

/** Whether a read of a limited lane may begin now. */
export function mayReadLimited(state: QueueState, lane: Lane, now: number): boolean {
  return freeSlots(state) > 0 && isOpen(state, lane, now) && state.floods.waitAt(lane, now) <= 0;
}

/** When a limited lane that may have due events can be read, on the monotonic clock. `undefined` if there is none. */
export function limitedAt(state: QueueState, looks: Looks, now: number): number | undefined {
  const { floods } = state;
  const open = floods.limited.filter(
    (lane) => isOpen(state, lane, now) && now >= (looks.quietUntil.get(laneKey(lane)) ?? now),
  );
  if (open.length === 0) return undefined;
  // Without a free slot, only a change makes room.
  if (freeSlots(state) <= 0) return Infinity;
  return Math.max(looks.failedUntil, now + Math.min(...open.map((lane) => floods.waitAt(lane, now))));
}

/** Whether a gate is that of all accounts. */
function isOfAll({ hasAccounts }: QueueState, { level }: Gate): boolean {
  return level === "everything" && hasAccounts;
}

/** What a claim asks the store for: one event, or the first of some lanes, or else of all that is not left out. */
export type Choice = Pick<ClaimOptions, "eventId" | "only">;

/**
 * Says what a try claims, one after the other until an attempt begins: the newest events that were never tried, or else the one
 * that is due first.
 */
export function choicesOf(
  state: QueueState,
  gate: Gate,
  newest: readonly Pick<NewEvent, "eventId" | "ref">[],
  now: number,
): readonly Choice[] {
  const mayBegin = (lane: Lane): boolean => lets(state, lane, CHOSEN, now);
  const chosen = newest.filter((event) => mayBegin(state.laneOf(event))).slice(0, MOST_CHOSEN);
  const first = isOfAll(state, gate)
    ? {}
    : { only: lanesOf(gate.lane).filter(mayBegin).map(state.beginningOf) };
  return [...chosen.map(({ eventId }) => ({ eventId })), first];
}

/** What follows a claim: an attempt, the end of an event that has waited for too long, or the end of the lease. */
export type Step = "start" | "give back" | { readonly givesUpBecause: string };

/** Says what follows a claim. The world may have changed since the claim was planned. */
export function stepOf(state: QueueState, claim: ClaimedEvent, how: How, now: number): Step {
  const lane = state.laneOf(claim);
  if (state.isClosed) return "give back";
  const outage = state.gates.outageOf(lane);
  const isSpent = hasWaited(state, claim, lane, how, now);
  if (isSpent && outage !== undefined) return { givesUpBecause: outage };
  // Only gates in doubt are shut: the platform answers, but may hide the record. It is read once more, and then parked.
  if (isSpent) return "start";
  return !how.givesUp && lets(state, lane, how, now) ? "start" : "give back";
}

/** Whether an event has waited for `giveUpAfter` behind a shut gate. */
function hasWaited(
  { gates, policy }: QueueState,
  claim: ClaimedEvent,
  lane: Lane,
  { givesUp = false }: How,
  now: number,
): boolean {
  const shut = gates.shutOf(lane);
  if (shut.length === 0) return false;
  const { attempts, failures, refusals, claimedAt, firstDueAt } = claim;
  const { outages, outageFor } = uncountedOf(
    claim,
    gates.outageOf(lane) === undefined ? "refusal" : "outage",
  );
  if (outages > 0) return outageFor >= policy.giveUpAfter;
  // An event that was never read counts from when it was due, or from when the pause began. If it is claimed as the try, it is
  // read instead of parked.
  const isNew = attempts === 1 && failures + refusals === 0;
  const shutFor = now - Math.min(...shut.map(({ shutting }) => shutting!.at));
  return givesUp && isNew && Math.min(shutFor, claimedAt - firstDueAt.getTime()) >= policy.giveUpAfter;
}

/** Says when a request may claim its own event: now, after a wait in ms, or not at all because it has to wait with others. */
export function ownTurnAt(state: QueueState, lane: Lane, now: number): "now" | "shut" | number {
  if (!lets(state, lane, FRESH, now)) return "shut";
  if (freeSlots(state) <= 0) return Infinity;
  const wait = state.floods.waitAt(lane, now);
  return wait > 0 ? wait : "now";
}

/** Whether events may be due that only wait for a slot. */
export function needsSlot(state: QueueState): boolean {
  return freeSlots(state) <= 0 && !state.gates.isAllShut && !state.isClosed;
}

/** Whether the platform has refused every record for so long that a drain without a timeout ends, which began at this time. */
export function isHopeless({ floods: { since } }: QueueState, beganAt: number, now: number): boolean {
  return since !== undefined && now - Math.max(beganAt, since) >= ONLY_REFUSED;
}
