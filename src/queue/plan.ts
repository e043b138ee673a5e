// Says what may begin: the one place. All functions here are pure. They read a state and a time, and ask nobody.
//
// The common claim takes the events of all records but those behind shut gates, in limited lanes, and of accounts that have
// their share of the slots. Shut gates and limited lanes get tasks instead: one try for each gate, and the reads that the limit
// allows. An account with its share waits. A claim
// arrives some time after it was planned, so that `stepOf` looks at the state again.

import { uncountedOf } from "../stores/outcomes.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { fullAt, isFull, roomAt } from "./fairness.ts";
import { CHECK, type Gate, waitOf } from "./gate.ts";
import { freeSlots, type QueueState } from "./state.ts";
import { type Lane, laneKey, lanesOf } from "./work.ts";

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
  /** When to plan again if nothing changes before, on the monotonic clock. */
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
  /** The names of the tasks that run. */
  readonly running: ReadonlySet<string>;
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
  return { common, tasks, wakeAt: common ? now : Math.min(wakeAt, view.dueAt > now ? view.dueAt : Infinity) };
}

/** Grows when other events may be claimed than before. */
export function versionOf({ gates, floods, fairness }: QueueState): number {
  return gates.version + floods.version + fairness.version;
}

/** Plans the common claim, if it is likely to find an event, and there is room. */
export function commonClaim(state: QueueState, view: View, now: number): CommonClaim | undefined {
  const { gates, fairness, hasAccounts, isClosed } = state;
  if (view.dueAt > now && view.version === versionOf(state)) return undefined;
  // While everything is shut, the store cannot leave out all accounts by name, and tasks claim what may begin.
  if (isClosed || (gates.isAllShut && hasAccounts)) return undefined;
  const most = roomAt(fairness, now);
  const limit = Math.max(0, Math.min(freeSlots(state), most));
  const ahead = Math.min(view.ahead(), most - limit);
  return limit + ahead > 0 ? { limit, ahead } : undefined;
}

/** The beginnings of the records that the common claim leaves out. */
export function exceptOf(state: QueueState, now: number): string[] {
  const { gates, floods, fairness, beginningOf, strays } = state;
  return [
    ...strays(),
    ...gates.shut.flatMap(({ lane }) => lanesOf(lane).map(beginningOf)),
    ...floods.limited.map(beginningOf),
    ...fullAt(fairness, now).map((account) => beginningOf({ account, kind: undefined })),
  ];
}

/** Whether anything is left out of the common claim that needs tasks. */
export function needsTasks({ gates, floods }: QueueState): boolean {
  return gates.size > 0 || gates.isAllShut || floods.limited.length > 0;
}

/** Plans the tasks: the tries of shut gates, the reads of limited lanes, and what looks after both. */
export function tasksAt(
  state: QueueState,
  looks: Looks,
  now: number,
): { readonly tasks: readonly Task[]; readonly wakeAt: number } {
  if (!needsTasks(state)) return { tasks: [], wakeAt: Infinity };
  if (now < looks.failedUntil) return { tasks: [], wakeAt: looks.failedUntil };
  const { gates, floods, hasAccounts, isWoken } = state;
  const { shut } = gates;
  const begun: Begun = { tasks: [], slots: freeSlots(state), wakeAt: now + CHECK };
  for (const gate of shut) beginTry(state, looks, begun, gate, now);
  for (const lane of floods.limited) beginReads(state, looks, begun, lane, now);
  if (shut.length > 0) {
    const polls = looks.mayHaveArrived || !isWoken;
    if (polls) beginAt(looks, begun, { name: "poll", kind: "poll" }, looks.pollAt, now);
    beginAt(looks, begun, { name: "give up", kind: "give up" }, looks.giveUpAt, now);
    if (gates.isAllShut && hasAccounts)
      beginAt(looks, begun, { name: "pass", kind: "pass" }, looks.passAt, now);
  }
  return begun;
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
  const { gates } = state;
  const { name, fresh } = gate;
  if (gate.try !== undefined || looks.running.has(name)) return;
  const wait = waitOf(gate, now);
  if (begun.slots > 0 && fresh && gates.lets(fresh.lane, now, true)) {
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
    gates.lets(lane, now) && !gates.shutOf(lane).some((each) => isTaken(each.name));
  return isOfAll(state, gate) || lanesOf(gate.lane).some(isFree);
}

/** Plans the reads of a limited lane. */
function beginReads(state: QueueState, looks: Looks, begun: Begun, lane: Lane, now: number): void {
  const { gates, floods } = state;
  const name = laneKey(lane);
  const at = Math.max(now + floods.waitAt(lane, now), looks.quietUntil.get(name) ?? now);
  if (at > now) begun.wakeAt = Math.min(begun.wakeAt, at);
  else if (begun.slots > 0 && !gates.isShut(lane) && !looks.running.has(name)) {
    begun.slots -= 1;
    begun.tasks.push({ name, kind: "read", lane });
  }
}

/** When a limited lane that may have due events can be read, on the monotonic clock. `undefined` if there is none. */
export function limitedAt(state: QueueState, looks: Looks, now: number): number | undefined {
  const { gates, floods } = state;
  const open = floods.limited.filter(
    (lane) => !gates.isShut(lane) && now >= (looks.quietUntil.get(laneKey(lane)) ?? now),
  );
  if (open.length === 0) return undefined;
  // Without a free slot, only a change makes room.
  if (freeSlots(state) <= 0) return Infinity;
  return Math.max(looks.failedUntil, now + Math.min(...open.map((lane) => floods.waitAt(lane, now))));
}

/** Whether a gate is that of all accounts. */
export function isOfAll({ hasAccounts }: QueueState, { level }: Gate): boolean {
  return level === "everything" && hasAccounts;
}

/** How an event came to be claimed. */
export interface How {
  /** Whether the common claim took it. */
  readonly isCommon?: boolean;
  /** Whether it has just arrived, so that it may be the try of a shut gate before its time. */
  readonly isFresh?: boolean;
  /** Whether it was chosen for its lane, so that the limit of reads does not hold it up. */
  readonly isChosen?: boolean;
  /** Whether it was claimed only to be parked without a read. */
  readonly givesUp?: boolean;
}

/** What follows a claim: an attempt, the end of an event that has waited for too long, or the end of the lease. */
export type Step = "start" | "give back" | { readonly givesUpBecause: string };

/** Says what follows a claim. The world may have changed since the claim was planned. */
export function stepOf(state: QueueState, claim: ClaimedEvent, how: How, now: number): Step {
  const { gates, floods, fairness, isClosed } = state;
  const lane = state.laneOf(claim);
  if (isClosed) return "give back";
  const outage = gates.outageOf(lane);
  const isSpent = hasWaited(state, claim, lane, how, now);
  if (isSpent && outage !== undefined) return { givesUpBecause: outage };
  // Only gates in doubt are shut: the platform answers, but may hide the record. It is read once more, and then parked.
  if (isSpent) return "start";
  if (how.givesUp) return "give back";
  if (!gates.lets(lane, now, how.isFresh) || (!how.isChosen && floods.isLimited(lane))) return "give back";
  return how.isCommon && isFull(fairness, lane.account, now) ? "give back" : "start";
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

/** Says when a request may claim its own event: now, after a wait in ms, or not at all because its gates are shut. */
export function ownTurnAt(state: QueueState, lane: Lane, now: number): "now" | "shut" | number {
  const { gates, floods } = state;
  if (!gates.lets(lane, now, true)) return "shut";
  if (freeSlots(state) <= 0) return Infinity;
  const wait = floods.waitAt(lane, now);
  return wait > 0 ? wait : "now";
}
