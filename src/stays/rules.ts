// What should exist for a stay, as functions of plain data: `(ledger, wanted, now) => ledger`. Nothing here calls, reads or
// waits. A plan may run at any time, and as often as one likes: while nothing changes, it changes nothing.

import type { BookingStay } from "../models/booking-stay.ts";
import {
  type Act,
  EMPTY,
  type Entry,
  type HoldEntry,
  type HoldWant,
  type Json,
  type Ledger,
  type OnceEntry,
  type OnceWant,
  stayOfEntry,
  type Wanted,
} from "./ledger.ts";

/** What the store knows of an entry's event. */
export interface Fact {
  /** Whether somebody discarded or deleted it. */
  readonly isDropped: boolean;
  /** Whether a process ended during an attempt at it, so that its call may have begun. */
  readonly isLost: boolean;
}

export interface PlanInput {
  readonly ledger: Ledger | undefined;
  /** The stay that holds now. */
  readonly to: BookingStay | undefined;
  /** What the stay needs, in the order of `want`. It is empty if no stay holds. */
  readonly wanted: readonly Wanted[];
  /** Whether an entry stays as it is, because nobody knows what its house needs. */
  readonly keeps: (entry: Entry) => boolean;
  /** The house of a stay that was handled before the app had `stays`. */
  readonly handledAt?: number | undefined;
  /** Epoch ms. */
  readonly now: number;
  /** What the store knows of the events of entries, by id. */
  readonly facts?: ReadonlyMap<string, Fact> | undefined;
  readonly newId: (name: string, stay: BookingStay) => string;
}

/** Returns the ledger with what should exist now. An entry that needs a new event has none. */
export function plan({ ledger = EMPTY, facts, ...input }: PlanInput): Ledger {
  const { wanted, now } = input;
  const entries = ledger.entries.map((entry) => noted(entry, facts));
  const counted = wanted.flatMap((each) => passedOnce(each, input));
  const done = { ...ledger.done, ...Object.fromEntries(counted) };
  const names = new Set([...wanted, ...entries].map(({ name }) => name));
  const planned = [...names].flatMap((name): Entry[] => {
    const wish = wanted.find((each) => each.name === name);
    const own = entries.filter((entry) => entry.name === name);
    const of = { ...input, name, done: done[name] };
    return [
      ...planHold(own.filter(isHold), wish?.kind === "hold" ? wish.want : undefined, of),
      ...planOnce(own.filter(isOnce), wish?.kind === "once" ? wish.want : undefined, of),
    ];
  });
  return { ...ledger, at: now, entries: planned.map((entry) => withFittingRow(entry, now)), done };
}

/** What the plan for the things with one name is made of. */
interface NamePlan extends Pick<PlanInput, "to" | "keeps" | "newId" | "now"> {
  readonly name: string;
  /** The last run of the once with this name. */
  readonly done: Ledger["done"][string] | undefined;
}

/** Adds to an entry what the store knows of its event. */
function noted(entry: Entry, facts: PlanInput["facts"]): Entry {
  const { row } = entry;
  const fact = row && facts?.get(row.eventId);
  if (!row || !fact) return entry;
  if (fact.isDropped) return { ...entry, row: undefined, isDropped: true };
  // The process ended within the call or before it. Nobody knows, so the call counts.
  return fact.isLost ? duringCall(entry, row.act) : entry;
}

/** Before the app had `stays`, a stay was handled: a once at its house whose time has passed counts as done. */
function passedOnce(
  { kind, name, want }: Wanted,
  { handledAt, now }: Pick<PlanInput, "handledAt" | "now">,
): [string, Ledger["done"][string]][] {
  if (kind === "hold" || want.at > now || want.stay.listingId !== handledAt) return [];
  return [[name, { stay: want.stay, at: want.at, since: want.at }]];
}

function planHold(
  entries: readonly HoldEntry[],
  asked: HoldWant | undefined,
  { now, keeps, name, newId }: NamePlan,
): HoldEntry[] {
  const want = asked && now < asked.until ? asked : undefined;
  const isHere = (entry: HoldEntry) => stayOfEntry(entry).listingId === want?.stay.listingId;
  const isSame = (entry: HoldEntry) => want !== undefined && isSameStay(stayOfEntry(entry), want.stay);
  const planned = entries.flatMap((entry): HoldEntry[] => {
    if (keeps(entry)) return [entry];
    if (entry.isDropped) return isSame(entry) ? [entry] : [];
    const { was } = entry;
    // Its id is known to nobody, so other days are another occurrence.
    if (!was) return isSame(entry) ? [withWant(entry, want, now)] : [];
    // A hold without an `until` of its own ends without a call.
    if (!want && was.isOpenEnded && now >= was.until) return [];
    return [withWant(entry, isHere(entry) ? want : undefined, now)];
  });
  if (!want || planned.some(isHere)) return planned;
  return [...planned, { kind: "hold", name, id: newId(name, want.stay), want }];
}

/** An event that is due for `begin` is another one if `begin` gets something else. */
function withWant(entry: HoldEntry, want: HoldWant | undefined, now: number): HoldEntry {
  const { row } = entry;
  const isStale =
    row?.act === "begin" && row.at <= now && want && entry.want && !isSameCall(want, entry.want);
  return { ...entry, want, ...(isStale && { row: undefined }) };
}

function planOnce(
  entries: readonly OnceEntry[],
  want: OnceWant | undefined,
  { to, now, keeps, name, newId, done }: NamePlan,
): OnceEntry[] {
  const house = want?.stay.listingId;
  let hasMoved = false;
  const planned = entries.flatMap((entry): OnceEntry[] => {
    if (keeps(entry) || entry.isOwed) return [entry];
    if (want && isSameOnce(entry.want, want)) return [{ ...entry, want }];
    if (entry.isDropped) return [];
    const { at, owedFrom, stay } = entry.want;
    const isHere = house === stay.listingId;
    const isIn = want
      ? isHere && want.owedFrom !== undefined && want.owedFrom <= now && now < want.at
      : // `want` names it no more, although the guest is still there.
        to?.listingId === stay.listingId && hasDay(to, now);
    const isOwed = owedFrom !== undefined && now >= owedFrom && !isIn;
    // If its time has passed, nobody knows whether the guest was in the old house until then, or in the new one.
    hasMoved ||= !isOwed || at <= now;
    if (!isOwed) return [];
    return [{ ...entry, isOwed, ...(at > now && { isEarly: true, row: undefined }) }];
  });
  if (!want || isDone(want, done) || planned.some((entry) => !entry.isOwed && isSameOnce(entry.want, want)))
    return planned;
  const isLate = want.until === undefined ? hasMoved : now < want.until;
  const isCovered = planned.some((entry) => entry.isOwed && entry.want.stay.listingId === house);
  if (want.at <= now && (!isLate || isCovered)) return planned;
  return [...planned, { kind: "once", name, id: newId(name, want.stay), want }];
}

/** Whether a once must not run any more. */
export function isOver({ until }: OnceWant, now: number): boolean {
  return until !== undefined && now >= until;
}

/** What an entry does next, and when: epoch ms, or a time that has passed if it is due. */
export function nextOf(entry: Entry, now: number): { readonly act: Act; readonly at: number } | undefined {
  if (entry.isDropped) return undefined;
  if (entry.kind === "once") return { act: "once", at: entry.isEarly ? now : entry.want.at };
  const { want, was, since, isEnding } = entry;
  const from = want?.from ?? now;
  if (!isEnding && want && from <= now && now < want.until) {
    if (since === undefined || !was || !isSameCall(was, want)) return { act: "begin", at: from };
    return want.isOpenEnded ? undefined : { act: "end", at: want.until };
  }
  if (was) return { act: "end", at: now };
  return want && now < want.until ? { act: "begin", at: from } : undefined;
}

/** Leaves an entry its event if that is the right one for what the entry does next. */
function withFittingRow(entry: Entry, now: number): Entry {
  const { row } = entry;
  if (!row) return entry;
  const next = nextOf(entry, now);
  const fits = next?.act === row.act && (next.at > now ? row.at === next.at : row.at <= now);
  return fits ? entry : { ...entry, row: undefined };
}

const ORDER: readonly Act[] = ["end", "begin", "once"];

/** Returns the entries that need an event, in the order in which those that are due at once act. */
export function toArm(
  ledger: Ledger,
  now: number,
): { readonly entry: Entry; readonly act: Act; readonly at: number }[] {
  return ledger.entries
    .filter(({ row }) => row === undefined)
    .flatMap((entry) => {
      const next = nextOf(entry, now);
      return next ? [{ entry, ...next }] : [];
    })
    .sort((one, other) => ORDER.indexOf(one.act) - ORDER.indexOf(other.act));
}

/** Returns the entries that are due, and act before another one that is due. */
export function dueBefore({ entries }: Ledger, entry: Entry, now: number): Entry[] {
  const due = entries.flatMap((each) => {
    const next = nextOf(each, now);
    return next && next.at <= now ? [{ each, act: next.act }] : [];
  });
  const inOrder = due.sort((one, other) => ORDER.indexOf(one.act) - ORDER.indexOf(other.act));
  const all = inOrder.map(({ each }) => each);
  return all.slice(0, Math.max(0, all.indexOf(entry)));
}

/**
 * Returns the events that a plan must know more of: the event of an entry that is due is no longer needed, or the event is
 * to be replaced, and somebody may have discarded it.
 *
 * @param looksAtDue - whether the plan tries again what was parked
 */
export function rowsInDoubt(before: Ledger, after: Ledger, now: number, looksAtDue: boolean): string[] {
  const inDoubt = before.entries.flatMap(({ id, row }) => {
    const planned = after.entries.find((entry) => entry.id === id);
    const isKept = row !== undefined && planned?.row?.eventId === row.eventId;
    const isAsked = row && (row.at <= now ? looksAtDue || !isKept : planned !== undefined && !isKept);
    return isAsked ? [row.eventId] : [];
  });
  return looksAtDue && before.problem !== undefined ? [...inDoubt, before.problem] : inDoubt;
}

/** The time at which a hold must end although its `begin` has not succeeded: it may exist, and that event may be parked. */
function endInDoubt(entry: Entry): number {
  const want = entry.kind === "hold" && entry.row?.act === "begin" ? entry.want : undefined;
  return want && !want.isOpenEnded ? want.until : Number.POSITIVE_INFINITY;
}

/**
 * Returns the events that a look must know more of: those of holds whose time is over, and whose `begin` has not succeeded.
 * 30 days after the check-out, it asks for all, because they may have been deleted.
 */
export function rowsToLookAt(ledger: Ledger, now: number): string[] {
  const isForgotten = forgottenAt(ledger) <= now;
  const asked = ledger.entries.filter((entry) => isForgotten || endInDoubt(entry) <= now);
  const all = [...asked.map(({ row }) => row?.eventId), isForgotten ? ledger.problem : undefined];
  return all.filter((eventId) => eventId !== undefined);
}

/** Returns when the event that looks at a booking without a read is due next, epoch ms. */
export function nextLookAt(ledger: Ledger): number {
  return Math.min(forgottenAt(ledger), ...ledger.entries.map(endInDoubt));
}

/** Returns the entry while its call runs. Recorded with the end of the attempt, however that ends. */
export function duringCall(entry: Entry, act: Act): Entry {
  if (entry.kind === "once") return entry;
  return act === "end" ? { ...entry, isEnding: true } : { ...entry, was: entry.want, since: undefined };
}

/** What an entry is after its call has succeeded, and what the ledger then remembers of it. */
export interface AfterCall {
  readonly entries: readonly Entry[];
  readonly done?: Ledger["done"] | undefined;
}

export function afterCall(
  entry: Entry,
  act: Act,
  { now, value, newId }: Pick<PlanInput, "now" | "newId"> & { readonly value?: Json | undefined },
): AfterCall {
  const { name } = entry;
  if (entry.kind === "once") {
    const { stay, at } = entry.want;
    return { entries: [], ...(!entry.isEarly && { done: { [name]: { stay, at, since: now } } }) };
  }
  const { want } = entry;
  // A hold whose `until` has come leaves nothing behind, so that the ledger of a stay that is over becomes empty.
  if (act === "end")
    return {
      entries: want && now < want.until ? [{ kind: "hold", name, id: newId(name, want.stay), want }] : [],
    };
  const begun = { ...entry, was: want, since: now, row: undefined };
  return { entries: [value === undefined ? begun : { ...begun, value }] };
}

/** Returns a ledger whose entries need new events in the place of some. */
export function withoutRows(ledger: Ledger, ids: ReadonlySet<string>): Ledger {
  const entries = ledger.entries.map((entry) =>
    entry.row && ids.has(entry.row.eventId) ? { ...entry, row: undefined } : entry,
  );
  return { ...ledger, entries };
}

/** Returns the entries of a ledger with others in the place of one. */
export function replaced({ entries }: Ledger, entry: Entry, by: readonly Entry[]): Entry[] {
  return entries.flatMap((each) => (each.id === entry.id ? by : [each]));
}

/**
 * Returns the ledger after a look at it. A hold that may have begun ends at its time. 30 days after the check-out, what has run
 * or was deleted is forgotten, and an open hold ends without a call.
 */
export function swept(ledger: Ledger, facts: PlanInput["facts"], now: number): Ledger {
  const isForgotten = forgottenAt(ledger) <= now;
  const entries = ledger.entries.flatMap((entry): Entry[] => {
    const seen = noted(entry, facts);
    const known = seen.kind === "hold" ? (seen.was ?? seen.want) : undefined;
    if (isForgotten && (seen.isDropped || (known?.isOpenEnded && now >= known.until))) return [];
    if (endInDoubt(entry) > now) return [seen];
    return seen.isDropped || (seen as HoldEntry).was === undefined ? [] : [{ ...seen, row: undefined }];
  });
  const { done, problem } = ledger;
  const isSolved = problem === undefined || facts?.get(problem)?.isDropped;
  return {
    ...ledger,
    at: now,
    entries,
    done: isForgotten ? {} : done,
    problem: isSolved ? undefined : problem,
  };
}

export const DAY = 24 * 60 * 60_000;

/** How long after a check-out its booking is remembered, ms. */
export const REMEMBERED = 30 * DAY;

/** Returns when nothing of a ledger's stays needs to be remembered, epoch ms. */
function forgottenAt({ entries, done }: Ledger): number {
  const stays = [...entries.flatMap(staysOf), ...Object.values(done).map(({ stay }) => stay)];
  return Math.max(...stays.map(({ checkOut }) => Date.parse(checkOut) + REMEMBERED));
}

function staysOf(entry: Entry): BookingStay[] {
  if (entry.kind === "once") return [entry.want.stay];
  return [entry.was, entry.want].flatMap((want) => want?.stay ?? []);
}

function isDone(want: OnceWant, done: NamePlan["done"]): boolean {
  return done !== undefined && isSameOnce(done, want);
}

/** Another house, or other days with another time, make another once. */
function isSameOnce(one: Pick<OnceWant, "stay" | "at">, other: Pick<OnceWant, "stay" | "at">): boolean {
  return (
    one.stay.listingId === other.stay.listingId && (one.at === other.at || isSameStay(one.stay, other.stay))
  );
}

function isSameStay(one: BookingStay, other: BookingStay): boolean {
  return (
    one.listingId === other.listingId && one.checkIn === other.checkIn && one.checkOut === other.checkOut
  );
}

function hasDay({ checkIn, checkOut }: BookingStay, now: number): boolean {
  const day = new Date(now).toISOString().slice(0, 10);
  return checkIn <= day && day <= checkOut;
}

/** Whether `begin` gets the same stay and data. */
function isSameCall(one: HoldWant, other: HoldWant): boolean {
  return isSameStay(one.stay, other.stay) && JSON.stringify(one.data) === JSON.stringify(other.data);
}

function isHold(entry: Entry): entry is HoldEntry {
  return entry.kind === "hold";
}

function isOnce(entry: Entry): entry is OnceEntry {
  return entry.kind === "once";
}
