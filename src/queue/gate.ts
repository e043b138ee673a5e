// One gate as plain data, and what each fact makes of it. A gate is never changed: a fact makes the next one.

import { errorText } from "../error-text.ts";
import { type Lane, laneKey, type Outage } from "./work.ts";

/** So many records that fail for the first time without an answer shut a gate. */
const ROW = 5;
/** So many failures without an answer shut a lane's gate, also if the same events fail again and again. */
const MANY = 20;
/** At most one try begins in this time, ms. It is the wait for the first try, and each failed try doubles that. */
const TRY_EVERY = 1000;
/** The longest wait between two tries without `Retry-After`, ms. */
const LONGEST_WAIT = 30_000;
/** The longest `Retry-After` that a gate obeys, ms. */
export const LONGEST_RETRY_AFTER = 15 * 60_000;
/** The longest wait of an event whose failure does not count, ms. It is longer than that of a gate, and the event is handled soon after an outage. */
export const LONGEST_UNCOUNTED = 40_000;
/** How often a gate whose try must wait looks whether anything waits behind it, ms. */
export const CHECK = 30_000;
/** The shortest wait after a look that found no event for a try, ms. */
export const AGAIN = 1000;
/** A wait is told again if it is longer than the last one that was told by more than this, ms. */
const TOLD = 1000;
/** By how much an event may be due after the end of a wait that was asked for, ms, because the store got the wait a little later. */
const LATER = 10_000;

/** A read, from its begin to its first result. */
export interface Read {
  /** The record, or another name of what is read. */
  readonly ref: string;
  /** The event that needs the read, or else the ref. */
  readonly key: string;
  readonly lane: Lane;
  /** On the monotonic clock. */
  beganAt: number;
  /** Whether the read was answered or has failed. */
  hasResult: boolean;
}

/** Why and until when a gate is shut. */
interface Shutting {
  /** The date for people. */
  readonly since: Date;
  /** When the gate shut, on the monotonic clock. */
  readonly at: number;
  /** When the next try may begin, on the monotonic clock. */
  readonly until: number;
  /** When the platform asked for a wait until `until`, by `Retry-After`, on the monotonic clock. */
  readonly askedAt: number | undefined;
  /** The wait that others were told, on the monotonic clock. */
  readonly toldUntil: number;
  readonly reason: string;
  /** The record whose read failed. */
  readonly ref: string;
  /** Whether the platform answers, but nothing is found: it may hide every record of the lane. */
  readonly isDoubt: boolean;
}

/** One gate. The rules are at the top of gates.ts. Times are on the monotonic clock. */
export interface Gate {
  readonly level: "everything" | "account" | "lane";
  /** The lane. The gate of an account has no kind, and that of everything has no account either. */
  readonly lane: Lane;
  readonly name: string;
  /** The records that have failed for the first time since the last answer. */
  readonly row: readonly string[];
  /** How many reads have failed since the last answer. */
  readonly failures: number;
  /** The accounts in the row, or the kinds in an app without accounts. Two are enough. */
  readonly of: readonly string[];
  readonly shutting: Shutting | undefined;
  /** How many tries in a row have failed, the shutting failure included. */
  readonly failedTries: number;
  /** The last event that arrived while the gate was shut, and was not tried. */
  readonly fresh: { readonly eventId: string; readonly lane: Lane } | undefined;
  /** When the queue looks again whether anything waits behind the gate. */
  readonly checkAt: number;
  /** When the queue looks again for a try, because it found none. */
  readonly quietUntil: number;
  readonly try: Read | undefined;
  /** When the last try began, or the gate shut. */
  readonly triedAt: number;
}

/** The fields of an open gate that nothing is wrong with. */
const OPEN = {
  row: [],
  failures: 0,
  of: [],
  failedTries: 0,
  shutting: undefined,
  fresh: undefined,
  checkAt: 0,
  quietUntil: 0,
  // A callback may still run after the answer that opened the gate.
  try: undefined,
} as const;

export function newGate(level: Gate["level"], lane: Lane): Gate {
  const name = `${level} ${laneKey(lane)}`;
  return { level, lane, name, ...OPEN, triedAt: Number.NEGATIVE_INFINITY };
}

/** Whether a gate has nothing to remember. */
export function isIdle({ shutting, failures }: Gate): boolean {
  return shutting === undefined && failures === 0;
}

/** Whether a read may begin: the gate is open, or the read becomes the try. */
export function letsRead(gate: Gate, now: number, isFresh: boolean): boolean {
  return gate.shutting === undefined || (gate.try === undefined && waitOf(gate, now, isFresh) <= 0);
}

/** Returns ms until the next try is due. With `isFresh`, until an event that has just arrived may be the try. */
export function waitOf({ shutting, triedAt }: Gate, now: number, isFresh = false): number {
  if (shutting === undefined) return 0;
  const { until, askedAt } = shutting;
  const dueAt = isFresh && askedAt === undefined ? Math.min(until, triedAt + TRY_EVERY) : until;
  return Math.max(0, dueAt - now);
}

/** How soon an event must be due to keep the gate shut, ms. */
export function horizonOf({ shutting }: Gate, now: number): number {
  const asked = shutting?.askedAt === undefined ? 0 : shutting.until - now + LATER;
  return Math.max(LONGEST_UNCOUNTED, asked);
}

/** A read has begun. */
export function afterBegin(gate: Gate, read: Read): Gate {
  if (gate.shutting === undefined || gate.try !== undefined) return gate;
  return { ...gate, try: read, triedAt: read.beganAt, fresh: undefined };
}

/** A read has ended. A try that said nothing about the gate is followed by another one, but not in the same second. */
export function afterEnd(gate: Gate, read: Read): Gate {
  if (gate.try !== read) return gate;
  const { shutting } = gate;
  const until = gate.triedAt + TRY_EVERY;
  return {
    ...gate,
    try: undefined,
    shutting: shutting && { ...shutting, until: Math.max(shutting.until, until) },
  };
}

/**
 * The platform has answered.
 *
 * @param isRefusal - whether it refused the record, which says nothing about a gate that is shut in doubt
 */
export function afterAnswer(gate: Gate, { beganAt }: Read, isRefusal: boolean): Gate {
  const { shutting } = gate;
  if (shutting?.askedAt !== undefined && beganAt <= shutting.askedAt) return gate;
  return shutting?.isDoubt && isRefusal ? gate : opened(gate);
}

/** Nothing waits behind the gate any more. */
export function opened(gate: Gate): Gate {
  return isIdle(gate) ? gate : { ...gate, ...OPEN };
}

/** A read that the platform did not answer. */
export interface Failure {
  readonly read: Read;
  readonly outage: Outage;
  readonly error: unknown;
  readonly isFirst: boolean;
  /** On the monotonic clock. */
  readonly now: number;
  /** The same time for people. */
  readonly date: Date;
  /** Varies the wait by a tenth, so that the tries of several processes do not come at once. */
  readonly spread: number;
}

/** Whether a failed read may be the fault of its record alone. A failure of the whole account or a doubt never is. */
export function isOfRecord({ everything, wholeKind, retryAfter }: Outage): boolean {
  return !everything && !wholeKind && retryAfter === undefined;
}

/** A read has failed. What is about a whole account shuts its gate, and says nothing about others. */
export function afterFailure(gate: Gate, failure: Failure): Gate {
  const { read, outage, isFirst } = failure;
  const isOfAccount = outage.everything || outage.retryAfter !== undefined;
  if (isOfAccount) return gate.level === "account" ? shut(gate, failure) : gate;
  const noted = gate.level === "account" ? gate : noteFailure(gate, isFirst, read);
  // A failed try makes the wait of its gate longer.
  return gate.try === read || isTooMuch(noted, outage) ? shut(noted, failure) : noted;
}

function noteFailure(gate: Gate, isFirst: boolean, { ref, lane }: Read): Gate {
  const failures = gate.failures + 1;
  if (!isFirst) return { ...gate, failures };
  const { account, kind } = lane;
  return { ...gate, failures, row: withNew(gate.row, ref, ROW), of: withNew(gate.of, account ?? kind, 2) };
}

function withNew(known: readonly string[], name: string | undefined, most: number): readonly string[] {
  return name === undefined || known.length >= most || known.includes(name) ? known : [...known, name];
}

function isTooMuch({ level, row, failures, of }: Gate, { wholeKind }: Outage): boolean {
  if (level === "lane") return wholeKind === true || row.length >= ROW || failures >= MANY;
  return level === "everything" && row.length >= ROW && of.length > 1;
}

/**
 * Shuts the gate. If it is shut, a failed try sets the next wait. Another read, and a try that began before its time, prolong
 * the wait by `Retry-After` only, and nothing shortens a wait that the platform asked for.
 */
function shut(gate: Gate, { read, outage, error, now, date, spread }: Failure): Gate {
  const { shutting: before, failedTries, checkAt, triedAt } = gate;
  const { retryAfter, wholeKind: isDoubt = false } = outage;
  // The event that has failed may be due before the others.
  const next = { ...gate, quietUntil: 0 };
  const asked =
    retryAfter === undefined ? 0 : now + Math.min(Math.max(retryAfter, TRY_EVERY), LONGEST_RETRY_AFTER);
  if (before && (gate.try !== read || read.beganAt < before.until))
    return asked > before.until ? { ...next, shutting: wait(before, asked, now) } : next;
  const until = now + Math.min(TRY_EVERY * 2 ** failedTries, LONGEST_WAIT) * spread;
  const cause = {
    since: before?.since ?? date,
    at: before?.at ?? now,
    reason: errorText(error),
    ref: read.ref,
    isDoubt,
  };
  return {
    ...next,
    try: before ? undefined : gate.try,
    failedTries: failedTries + 1,
    ...(before ? { checkAt, triedAt } : { checkAt: now + CHECK, triedAt: now }),
    shutting: asked > 0 ? wait(cause, asked, now) : wait(cause, until, undefined),
  };
}

/**
 * A pause that begins, and a failed try, are news. Another wait is news if it is longer by {@link TOLD} than what was told, because
 * many reads at once may get the same answer.
 */
function wait(
  cause: Omit<Shutting, "until" | "askedAt" | "toldUntil"> & { readonly toldUntil?: number },
  until: number,
  askedAt: number | undefined,
): Shutting {
  const { toldUntil = Number.NEGATIVE_INFINITY } = cause;
  return { ...cause, until, askedAt, toldUntil: until > toldUntil + TOLD ? until : toldUntil };
}

/** What others are told of a change of a gate: it shut, waits longer, or opened. */
export type GateNews = "shut" | "waits" | "open";

/** Says what others learn when a fact has made the second gate of the first one. */
export function newsOf({ shutting: before }: Gate, { shutting: after }: Gate): GateNews | undefined {
  if (after === undefined) return before && "open";
  if (before === undefined) return "shut";
  return after.toldUntil === before.toldUntil ? undefined : "waits";
}
