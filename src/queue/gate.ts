// One gate: its row of failures, and the tries while it is shut.

import type { Lane } from "./work.ts";

/** The wait for the first try, ms. Each failed try doubles it. */
const FIRST_WAIT = 1000;
/** The longest wait between two tries without `Retry-After`, ms. */
const LONGEST_WAIT = 30_000;
/** The longest `Retry-After` that a gate obeys, ms. */
export const LONGEST_RETRY_AFTER = 15 * 60_000;
/** At most one event that has just arrived is a try in this time, ms. */
const FRESH_EVERY = 1000;

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

interface Shutting {
  /** The date for people. */
  readonly since: Date;
  /** When the gate shut, on the monotonic clock. */
  readonly at: number;
  /** When the next try may begin, on the monotonic clock. */
  readonly until: number;
  /** Whether `until` comes from `Retry-After`. */
  readonly isAsked: boolean;
  readonly reason: string;
  /** The record whose read failed. */
  readonly ref: string;
  /** Whether the platform answers, but nothing is found: it may hide every record of the lane. */
  readonly isDoubt: boolean;
}

/** The fields of an open gate that nothing is wrong with. */
const OPEN = {
  row: 0,
  failures: 0,
  failedTries: 0,
  shutting: undefined,
  fresh: undefined,
  checkAt: 0,
  quietUntil: 0,
} as const;

interface Cause {
  readonly reason: string;
  readonly error: unknown;
  readonly retryAfter: number | undefined;
  readonly isDoubt: boolean;
}

/** Called when a gate shuts, waits longer, or opens. */
export type GateChange = (gate: Gate, change: "shut" | "waits" | "open", error?: unknown) => void;

/** One gate. The rules are at the top of gates.ts. */
export class Gate {
  readonly level: "everything" | "account" | "lane";
  /** The lane. The gate of an account has no kind, and that of everything has no account either. */
  readonly lane: Lane;
  /** How many events have failed for the first time since the last answer. */
  row = 0;
  /** How many reads have failed since the last answer. */
  failures = 0;
  /** The accounts in the row, or the kinds in an app without accounts. */
  readonly of = new Set<string>();
  shutting: Shutting | undefined;
  /** How many tries in a row have failed, the shutting failure included. */
  failedTries = 0;
  /** The last event that arrived while the gate was shut, and was not tried. */
  fresh: { readonly eventId: string; readonly lane: Lane } | undefined;
  /** How many passes of the reconciler wait for the gate. */
  passes = 0;
  /** When the queue looks again whether anything waits behind the gate, on the monotonic clock. */
  checkAt = 0;
  /** When the queue looks again for a try, because it found none, on the monotonic clock. */
  quietUntil = 0;
  readonly #onChange: GateChange;
  #try: Read | undefined;
  #triedAt = Number.NEGATIVE_INFINITY;
  /** When an event that had just arrived was last the try, or the gate shut. */
  #freshAt = Number.NEGATIVE_INFINITY;

  constructor(level: Gate["level"], lane: Lane, onChange: GateChange) {
    this.level = level;
    this.lane = lane;
    this.#onChange = onChange;
  }

  get isShut(): boolean {
    return this.shutting !== undefined;
  }

  get isTrying(): boolean {
    return this.#try !== undefined;
  }

  /** Whether the gate has nothing to remember. */
  get isIdle(): boolean {
    return !this.isShut && this.failures === 0 && this.#try === undefined;
  }

  isTry(read: Read): boolean {
    return this.#try === read;
  }

  /** Whether a read may begin: the gate is open, or the read becomes the try. */
  lets(now: number, isFresh: boolean): boolean {
    if (this.shutting === undefined) return true;
    return this.#try === undefined && now >= this.#dueAt(this.shutting, isFresh);
  }

  /** Whether the gate holds for an event whose last attempt was answered. In doubt, a record that is not found is no answer. */
  holdsAnswered(now: number): boolean {
    const { isAsked = false, isDoubt = false, until = 0 } = this.shutting ?? {};
    return isDoubt || (isAsked && now < until);
  }

  /** Returns ms until the next try is due. With `isFresh`, until an event that has just arrived may be the try. */
  waitAt(now: number, isFresh = false): number {
    return this.shutting === undefined ? 0 : Math.max(0, this.#dueAt(this.shutting, isFresh) - now);
  }

  #dueAt({ until, isAsked }: Shutting, isFresh: boolean): number {
    return isFresh && !isAsked ? Math.min(until, this.#freshAt + FRESH_EVERY) : until;
  }

  begin(read: Read, now: number): void {
    if (this.shutting === undefined || this.#try !== undefined) return;
    this.#try = read;
    this.#triedAt = now;
    if (now < this.shutting.until || read.key === this.fresh?.eventId) this.#freshAt = now;
    this.fresh = undefined;
  }

  /** A try that said nothing about the gate is followed by another one, but not in the same second. */
  end(read: Read): void {
    if (this.#try !== read) return;
    this.#try = undefined;
    this.postpone(this.#triedAt + FRESH_EVERY);
  }

  /** Lets no try begin before `until`, because there is none to begin. */
  postpone(until: number): void {
    if (this.shutting) this.shutting = { ...this.shutting, until: Math.max(this.shutting.until, until) };
  }

  note(isFirst: boolean, of: string | undefined): void {
    this.failures += 1;
    if (!isFirst) return;
    this.row += 1;
    if (of !== undefined && this.of.size < 2) this.of.add(of);
  }

  answered({ beganAt }: Read): void {
    if (this.shutting?.isAsked && beganAt <= this.shutting.at) return;
    this.open();
  }

  open(): void {
    const wasShut = this.isShut;
    Object.assign(this, OPEN);
    this.of.clear();
    if (wasShut) this.#onChange(this, "open");
  }

  /** Shuts the gate. If it is shut, a failed try sets the next wait, and another read prolongs it by `Retry-After` only. */
  shut(read: Read, { reason, error, retryAfter, isDoubt }: Cause, now: number): void {
    const before = this.shutting;
    const isAsked = retryAfter !== undefined;
    if (before !== undefined && this.#try !== read) {
      const until = now + (retryAfter === undefined ? 0 : waitAsked(retryAfter));
      if (until > before.until) this.shutting = { ...before, until, isAsked };
      return;
    }
    const wasDue = before === undefined || now >= before.until;
    const until = now + (isAsked ? waitAsked(retryAfter) : waitAfter(this.failedTries));
    this.failedTries += 1;
    const { since, at } = before ?? { since: new Date(), at: now };
    if (before === undefined) this.#freshAt = now;
    this.shutting = { since, at, until, isAsked, reason, ref: read.ref, isDoubt };
    if (this.#try === read) this.#try = undefined;
    if (wasDue || isAsked) this.#onChange(this, before === undefined ? "shut" : "waits", error);
  }
}

function waitAsked(retryAfter: number): number {
  return Math.min(Math.max(retryAfter, FIRST_WAIT), LONGEST_RETRY_AFTER);
}

/** Varies the wait by a tenth, so that the tries of several processes do not come at once. */
function waitAfter(failedTries: number): number {
  return Math.min(FIRST_WAIT * 2 ** failedTries, LONGEST_WAIT) * (0.9 + Math.random() / 5);
}
