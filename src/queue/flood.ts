// The flood of one lane as plain data, and what each fact makes of it. The rules are at the top of floods.ts.

import type { StoredEvent } from "../stores/stored-event.ts";
import type { Lane } from "./work.ts";

/** A lane is in a flood, or its reads are limited, while so many records were refused. */
const ENOUGH = 10;
/** For how long a refusal counts, ms. */
const WINDOW = 5 * 60_000;
/** The most refused records that are remembered. */
const MOST = 1000;
/** How many reads begin each second, and how many at once. Together they are 80, so no second has more. */
const [RATE, BURST] = [78, 2];
/** The lowest rate after answers with 429, reads a second. */
const LEAST_RATE = 1;
/** How much a rate that was halved rises each second, reads a second. */
const RISE = 0.25;

/** Whose turn the next read is. Records that were read before have every second one. */
export type Turn = "known" | "newest" | "first";
const TURNS: readonly Turn[] = ["known", "newest", "known", "first"];

interface Refused {
  readonly record: string;
  readonly at: number;
}

/** What one lane was refused, and how many of its reads may begin. Times are on the monotonic clock. */
export interface Flood {
  readonly lane: Lane;
  /** The records that were refused for the first time. The oldest refusal is first. */
  readonly first: readonly Refused[];
  /** The records that were refused, also again. */
  readonly refused: readonly Refused[];
  /** How many refusals came since the last answer. */
  readonly inRow: number;
  /** When the first of them came. `Infinity` if none did. */
  readonly since: number;
  /** How many reads of the limited lane have begun. */
  readonly turn: number;
  /** How many reads might begin at the time `at`, of which `rate` are added each second. */
  readonly reads: number;
  readonly at: number;
  readonly rate: number;
}

export function newFlood(lane: Lane): Flood {
  return { lane, first: [], refused: [], inRow: 0, since: Infinity, turn: 0, reads: 0, at: 0, rate: RATE };
}

/** Whether refusals of records that were never read count as nothing. */
export function isInFlood({ first }: Flood): boolean {
  return first.length >= ENOUGH;
}

/** Whether the reads of the lane are limited. That lasts longer than the flood, whose records are then refused for good. */
export function isLimited({ refused }: Flood): boolean {
  return refused.length >= ENOUGH;
}

/** A record that was never read was refused. @param isFirst - whether its event was never refused before */
export function afterRefusal(flood: Flood, record: string, isFirst: boolean, now: number): Flood {
  const { inRow, since, first, refused } = flood;
  const next = {
    ...flood,
    inRow: inRow + 1,
    since: Math.min(since, now),
    first: isFirst && !first.some((each) => each.record === record) ? withNew(first, record, now) : first,
    refused: withNew(
      refused.filter((each) => each.record !== record),
      record,
      now,
    ),
  };
  // The reads that began just before the limit fall into the same second.
  return isLimited(next) && !isLimited(flood) ? { ...next, reads: -ENOUGH, at: now, rate: RATE } : next;
}

function withNew(known: readonly Refused[], record: string, at: number): readonly Refused[] {
  return known.length >= MOST ? known : [...known, { record, at }];
}

/** A record was read, which takes back one refusal. */
export function afterAnswer(flood: Flood): Flood {
  const { first, refused } = flood;
  return {
    ...flood,
    inRow: 0,
    since: Infinity,
    first: first.slice(1),
    refused: refused.slice(1),
  };
}

/** Time has passed: refusals that are too long ago do not count. */
export function afterTime(flood: Flood, now: number): Flood {
  const isOld = ({ at }: Refused): boolean => at <= now - WINDOW;
  const { first, refused } = flood;
  if (![first[0], refused[0]].some((oldest) => oldest !== undefined && isOld(oldest))) return flood;
  return {
    ...flood,
    first: first.filter((each) => !isOld(each)),
    refused: refused.filter((each) => !isOld(each)),
  };
}

/** The platform has answered with 429, which halves the rate. */
export function afterRateLimit(flood: Flood, now: number): Flood {
  const next = afterReads(flood, 0, now);
  return { ...next, rate: Math.max(LEAST_RATE, next.rate / 2), reads: Math.min(0, next.reads) };
}

/** So many reads have begun. If it is negative, that many did not begin after all. */
export function afterReads(flood: Flood, count: number, now: number): Flood {
  const rate = Math.min(RATE, flood.rate + ((now - flood.at) * RISE) / 1000);
  return { ...flood, reads: readsAt(flood, now) - count, rate, at: now };
}

/** A read begins, whose turn is that of the next flood. */
export function afterTurn(flood: Flood, now: number): Flood {
  return { ...afterReads(flood, 1, now), turn: flood.turn + 1 };
}

export function turnOf({ turn }: Flood): Turn {
  return TURNS[turn % TURNS.length]!;
}

/** If no event of a turn can be claimed, the read goes to the others. */
export function orderOf(turn: Turn): readonly Turn[] {
  return [turn, "known", "newest", "first"];
}

/**
 * Whether an event of a record without a snapshot may be read as the newest one. The platform has said nothing about the record
 * yet: the event is new, or a rate limit or an outage came first.
 */
export function isUnanswered({ state, reason }: Pick<StoredEvent, "state" | "reason">): boolean {
  return state === "pending" || reason === "unavailable";
}

function readsAt({ reads, at, rate }: Flood, now: number): number {
  return Math.min(BURST, reads + ((now - at) * rate) / 1000);
}

/** Returns ms until the next read of a limited lane may begin. */
export function waitOf(flood: Flood, now: number): number {
  return Math.max(0, Math.ceil(((1 - readsAt(flood, now)) * 1000) / flood.rate));
}
