// Decides whether the platform is out of reach, and which reads may begin then. The queue and the reconciler ask this file.

import { errorText } from "../error-text.ts";
import { Gate, type GateChange, type Read } from "./gate.ts";
import { type Lane, laneKey, type Outage, type Pause, type PauseScope } from "./work.ts";

// A gate has one rule, at three levels: a lane (account and kind), an account, and everything. An app without accounts has
// the account `undefined`.
//
// 1. An answer about a record, even a refusal, opens the gates of its lane, of its account and of everything. A gate that
//    `Retry-After` has shut stays shut if the read began before.
// 2. The first failed read of an event, as far as it is known here, lengthens the row of its lane and that of everything. A
//    row of 5 shuts the gate; that of everything only if the row has two accounts, or in an app without accounts both kinds.
//    20 failures of any kind shut a lane. What is about a whole account (401, no token, 429, Retry-After) shuts the account's
//    gate at once, and says nothing about everything.
// 3. A shut gate lets one read through at a time, the try, if the wider gates let it too. The try may begin after 1 s, which
//    each failed try doubles up to 30 s, or after `Retry-After`. An event that has just arrived may be the try at once, but at
//    most one a second, and not before the end of `Retry-After`.
// 4. A failed read counts as an attempt if its lane was answered after the read began, or since the event's last failure.
// 5. A gate opens without an answer when nothing waits for it any more. tries.ts finds that out.

/** So many first failures without an answer shut a gate. */
const ROW = 5;
/** So many failures without an answer shut a lane's gate, also if the same events fail again and again. */
const MANY = 20;
/** For how many lanes the time of the last answer is remembered. */
const LANES = 10_000;
/** For how many events the time of the last failure is remembered. */
const EVENTS = 10_000;

/** A read that failed because the platform did not answer. */
export interface FailedRead {
  readonly outage: Outage;
  readonly error: unknown;
  /** Whether no read of this event is known to have failed since it arrived, was fired or was replayed. */
  readonly isFirst: boolean;
  /** When the event's row of uncounted failures began, on the monotonic clock. `undefined` if this is its first one. */
  readonly since?: number | undefined;
}

const EVERYTHING: Lane = { account: undefined, kind: undefined };

/** Knows which reads may begin. The rules are at the top of this file. */
export class Gates {
  /** Grows when a gate shuts or opens. */
  version = 0;
  readonly #onChange: GateChange;
  readonly #everything: Gate;
  /** The gates of lanes and of accounts that had a failure since their last answer. */
  readonly #gates = new Map<string, Gate>();
  /** When each lane was last answered, on the monotonic clock. */
  readonly #answeredAt = new Map<string, number>();
  /** When a read of an event last failed here, on the monotonic clock. */
  readonly #failedAt = new Map<string, number>();

  constructor(onChange: GateChange) {
    this.#onChange = (gate, change, error) => {
      this.version += 1;
      onChange(gate, change, error);
    };
    this.#everything = new Gate("everything", EVERYTHING, this.#onChange);
  }

  /** The shut gates, the widest first. */
  get shut(): readonly Gate[] {
    if (this.#gates.size === 0 && !this.#everything.isShut) return [];
    const rank = ({ level }: Gate): number => ["everything", "account", "lane"].indexOf(level);
    return [this.#everything, ...this.#gates.values()]
      .filter(({ isShut }) => isShut)
      .sort((one, other) => rank(one) - rank(other));
  }

  /** Whether everything is shut. */
  get isAllShut(): boolean {
    return this.#everything.isShut;
  }

  /** How many gates are remembered. */
  get size(): number {
    return this.#gates.size;
  }

  /** The widest pause of everything, or of an app without accounts; `undefined` if nothing of these pauses. */
  get pause(): Pause | undefined {
    const shut = this.shut.filter(({ lane }) => lane.account === undefined);
    const [first] = shut;
    if (first === undefined) return undefined;
    return pauseOf(first, shut.length > 1 ? "everything" : scopeOf(first));
  }

  /** The accounts with a shut gate, the one that is paused longest first. An account with two shut lanes pauses as a whole. */
  get pausedAccounts(): readonly Pause[] {
    const shut = this.shut.filter(({ lane }) => lane.account !== undefined);
    return [...Map.groupBy(shut, ({ lane }) => lane.account).values()]
      .map((gates) => pauseOf(gates[0]!, gates.length > 1 ? "account" : scopeOf(gates[0]!)))
      .sort((one, other) => one.since.getTime() - other.since.getTime());
  }

  /** Whether reads of this lane must wait, unless they are the try. */
  isShut(lane: Lane): boolean {
    return this.#of(lane).some(({ isShut }) => isShut);
  }

  /** The shut gates of a lane, the widest first. */
  shutOf(lane: Lane): readonly Gate[] {
    return this.#of(lane).filter(({ isShut }) => isShut);
  }

  /** Returns why the platform is out of reach for a lane. `undefined` if it answers, although it may hide every record. */
  outageOf(lane: Lane): string | undefined {
    return this.shutOf(lane).find(({ shutting }) => !shutting!.isDoubt)?.shutting?.reason;
  }

  /**
   * Whether a read may begin.
   *
   * @param isFresh - whether its event has just arrived
   */
  lets(lane: Lane, now: number, isFresh = false): boolean {
    return lane.kind === undefined || this.#of(lane).every((gate) => gate.lets(now, isFresh));
  }

  /** Returns ms until a read of this lane may be the try. It is 0 if the lane is not shut. */
  waitAt(now: number, lane: Lane): number {
    return Math.max(0, ...this.#of(lane).map((gate) => gate.waitAt(now)));
  }

  /** Returns how many tries in a row have failed at the gates of a lane, the shutting failure included. */
  failuresOf(lane: Lane): number {
    return Math.max(0, ...this.#of(lane).map((gate) => gate.failedTries));
  }

  /**
   * Notes that a read begins, which makes it the try of each shut gate that has none.
   *
   * @param key - the event that needs the read
   */
  begin(ref: string, lane: Lane, { key = ref, now = performance.now() } = {}): Read {
    const read: Read = { ref, key, lane, beganAt: now, hasResult: false };
    if (lane.kind !== undefined) for (const gate of this.#of(lane)) gate.begin(read, now);
    return read;
  }

  /** Notes that a read, and what follows it, has ended, also without a result. */
  end(read: Read): void {
    for (const gate of this.#of(read.lane)) gate.end(read);
    if (this.#gates.size > 0) this.#forget(read.lane);
  }

  /** Notes that the platform answered. */
  answered(read: Read, now = performance.now()): void {
    const { lane } = read;
    if (read.hasResult || lane.kind === undefined) return;
    read.hasResult = true;
    remember(this.#answeredAt, laneKey(lane), now, LANES);
    this.#failedAt.delete(read.key);
    for (const gate of this.#of(lane)) gate.answered(read);
    this.#forget(lane);
  }

  /** Whether the last read of an event failed here, as far as this process remembers. */
  hasFailed(key: string): boolean {
    return this.#failedAt.has(key);
  }

  /** Notes that the platform did not answer. @returns whether the failure counts as an attempt */
  failed(read: Read, { outage, error, isFirst, since }: FailedRead, now = performance.now()): boolean {
    const { lane, key } = read;
    const answeredAt = this.#answeredAt.get(laneKey(lane)) ?? Number.NEGATIVE_INFINITY;
    const failedAt = this.#failedAt.get(key) ?? since ?? Number.POSITIVE_INFINITY;
    const counts = answeredAt >= read.beganAt || answeredAt > failedAt;
    remember(this.#failedAt, key, now, EVENTS);
    if (read.hasResult || lane.kind === undefined) return counts;
    read.hasResult = true;
    const shut = (gate: Gate, retryAfter?: number): void =>
      gate.shut(
        read,
        { reason: errorText(error), error, retryAfter, isDoubt: outage.wholeKind === true },
        now,
      );
    if (outage.everything || outage.retryAfter !== undefined) {
      shut(this.#gateFor({ ...lane, kind: undefined }), outage.retryAfter);
      return counts;
    }
    const own = this.#gateFor(lane);
    const of = lane.account ?? lane.kind;
    for (const gate of [own, this.#everything]) gate.note(isFirst, of);
    if (outage.wholeKind || own.row >= ROW || own.failures >= MANY) shut(own);
    if (this.#everything.row >= ROW && this.#everything.of.size > 1) shut(this.#everything);
    // A failed try of any of its gates makes the wait of this gate longer.
    for (const gate of this.#of(lane)) if (gate.isTry(read)) shut(gate);
    return counts;
  }

  /** Keeps the gates of a lane shut during a wait for them, although no event may wait. */
  async whileWaiting(lane: Lane, wait: () => Promise<void>): Promise<void> {
    const gates = this.shutOf(lane);
    for (const gate of gates) gate.passes += 1;
    await wait();
    for (const gate of gates) gate.passes -= 1;
  }

  /** Opens the gates of an account, because nothing of it waits any more. */
  closeAccount(account: string): void {
    for (const gate of this.#gates.values()) if (gate.lane.account === account) this.open(gate);
  }

  /** Opens a gate behind which nothing waits. */
  open(gate: Gate): void {
    gate.open();
    this.#forget(gate.lane);
  }

  /** The gates of everything, of the account and of the lane, as far as there is trouble. */
  #of(lane: Lane): Gate[] {
    // Most of the time nothing is in trouble, so do not look up keys for each event.
    if (this.#gates.size === 0) return [this.#everything];
    const account = this.#gates.get(laneKey({ ...lane, kind: undefined }));
    const own = lane.kind === undefined ? undefined : this.#gates.get(laneKey(lane));
    return [this.#everything, account, own].filter((gate) => gate !== undefined);
  }

  #gateFor(lane: Lane): Gate {
    const key = laneKey(lane);
    let gate = this.#gates.get(key);
    if (gate === undefined) {
      gate = new Gate(lane.kind === undefined ? "account" : "lane", lane, this.#onChange);
      this.#gates.set(key, gate);
    }
    return gate;
  }

  #forget(lane: Lane): void {
    for (const each of [lane, { ...lane, kind: undefined }]) {
      const key = laneKey(each);
      if (this.#gates.get(key)?.isIdle) this.#gates.delete(key);
    }
  }
}

/** Remembers a value of the latest keys only, because an outage must not fill the memory. */
function remember(map: Map<string, number>, key: string, value: number, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value!);
}

function scopeOf({ lane }: Gate): PauseScope {
  if (lane.kind !== undefined) return lane.kind;
  return lane.account === undefined ? "everything" : "account";
}

/** Describes the pause of a gate that is shut, or that has just opened. */
export function pauseOf(gate: Gate, scope = scopeOf(gate)): Pause {
  const { account } = gate.lane;
  const { since, reason, ref } = gate.shutting ?? { since: new Date(), reason: "", ref: "" };
  return { scope, ...(account !== undefined && { account }), since, reason, ref };
}
