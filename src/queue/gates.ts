// Decides whether the platform is out of reach, and which reads may begin then. The queue and the reconciler ask this file.

import {
  afterAnswer,
  afterBegin,
  afterEnd,
  afterFailure,
  type Gate,
  type GateNews,
  isIdle,
  isOfRecord,
  letsRead,
  newGate,
  newsOf,
  opened,
  type Read,
  waitOf,
} from "./gate.ts";
import { type Lane, laneKey, type Outage, type Pause, type PauseScope } from "./work.ts";

// A gate has one rule, at three levels: a lane (account and kind), an account, and everything. An app without accounts has
// the account `undefined`.
//
// 1. An answer about a record, even a refusal, opens the gates of its lane, of its account and of everything. A gate that
//    `Retry-After` has shut stays shut if the read began before, and one that is shut in doubt if the record was refused.
// 2. The first failed read of an event, by its counts and the memory of this process, puts its record into the row of its lane and that of
//    everything. A row of 5 records shuts the gate; that of everything only if the row has two accounts, or in an app without accounts both kinds.
//    20 failures of any kind shut a lane. What is about a whole account (401, no token, 429, Retry-After) shuts the account's
//    gate at once, and says nothing about everything.
// 3. A shut gate lets one read through at a time, the try, if the wider gates let it too. The try may begin after 1 s, which
//    each failed try doubles up to 30 s, or after `Retry-After`. An event that has just arrived may be the try at once, but at
//    most one a second, and not before the end of `Retry-After`.
// 4. A failed read counts if it may be the fault of this record alone, and its lane was answered meanwhile: after the read
//    began, or after the event's last failure in any process. What is about a whole account never counts, and neither does a doubt.
// 5. A gate opens without an answer when nothing that is due soon waits for it any more. driver.ts finds that out, at each try and every 30 s.

/** How long before the next try of this process an event that failed is due, ms. */
const HEAD_START = 500;
/** For how many lanes the time of the last answer is remembered. */
const LANES = 10_000;
/** For how many events the time of the last failure is remembered. */
const EVENTS = 10_000;

/** A read that failed because the platform did not answer. */
export interface FailedRead {
  readonly outage: Outage;
  readonly error: unknown;
  /** Whether no read of this event has failed since it arrived, was fired, was replayed or was answered. */
  readonly isFirst: boolean;
  /** When the event's last failure came, in whichever process, on the monotonic clock. `undefined` if this is the first one. */
  readonly since?: number | undefined;
}

/** Called when a gate has shut, waits longer, or has opened. */
export type OnGateNews = (gate: Gate, news: GateNews, error?: unknown) => void;

/** The gates of all lanes: gives each fact to the gates that it concerns. The rules are at the top of this file. */
export class Gates {
  /** Grows when a gate shuts or opens. */
  version = 0;
  readonly #onNews: OnGateNews;
  #everything = newGate("everything", { account: undefined, kind: undefined });
  /** The gates of lanes and of accounts that had a failure since their last answer. */
  readonly #gates = new Map<string, Gate>();
  /** When each lane was last answered, on the monotonic clock. */
  readonly #answeredAt = new Map<string, number>();
  /** When a read of an event last failed here, on the monotonic clock. */
  readonly #failedAt = new Map<string, number>();
  /** The lanes whose gates passes of the reconciler wait for. */
  readonly #awaited = new Set<Lane>();

  constructor(onNews: OnGateNews) {
    this.#onNews = onNews;
  }

  /** The shut gates, the widest first. */
  get shut(): readonly Gate[] {
    if (this.#gates.size === 0 && !this.isAllShut) return [];
    const rank = ({ level }: Gate): number => ["everything", "account", "lane"].indexOf(level);
    return [this.#everything, ...this.#gates.values()]
      .filter(({ shutting }) => shutting)
      .sort((one, other) => rank(one) - rank(other));
  }

  /** Whether everything is shut. */
  get isAllShut(): boolean {
    return this.#everything.shutting !== undefined;
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
    return this.#pauseOf(shut, shut.length > 1 ? "everything" : scopeOf(first));
  }

  /** The accounts with a shut gate, the one that is paused longest first. An account with two shut lanes pauses as a whole. */
  get pausedAccounts(): readonly Pause[] {
    const shut = this.shut.filter(({ lane }) => lane.account !== undefined);
    return [...Map.groupBy(shut, ({ lane }) => lane.account).values()]
      .map((gates) => this.#pauseOf(gates, gates.length > 1 ? "account" : scopeOf(gates[0]!)))
      .sort((one, other) => one.since.getTime() - other.since.getTime());
  }

  /** Describes the pause of a gate that is shut, or that has just opened. A wider gate may prolong its wait. */
  pauseOf(gate: Gate): Pause {
    return this.#pauseOf([gate], scopeOf(gate));
  }

  /** Describes the gates that pause as one. The next try is the first one of any of them. */
  #pauseOf(gates: readonly Gate[], scope: PauseScope): Pause {
    const { lane, shutting } = gates[0]!;
    const { account } = lane;
    const { since, reason, ref } = shutting ?? { since: new Date(), reason: "", ref: "" };
    const now = performance.now();
    const nextTryAt = new Date(Date.now() + Math.min(...gates.map((gate) => this.waitAt(now, gate.lane))));
    return { scope, ...(account !== undefined && { account }), since, nextTryAt, reason, ref };
  }

  /** Returns a gate as it is now, because facts may have come since it was looked up. */
  now({ level, lane }: Gate): Gate {
    return level === "everything" ? this.#everything : this.#gateOf(lane);
  }

  /** Whether reads of this lane must wait, unless they are the try. */
  isShut(lane: Lane): boolean {
    return this.#of(lane).some(({ shutting }) => shutting !== undefined);
  }

  /** The shut gates in the way of a lane, the widest first. */
  shutOf(lane: Lane): readonly Gate[] {
    return this.#of(lane).filter(({ shutting }) => shutting);
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
    return lane.kind === undefined || this.#of(lane).every((gate) => letsRead(gate, now, isFresh));
  }

  /** Returns ms until a read of this lane may be the try. It is 0 if the lane is not shut. */
  waitAt(now: number, lane: Lane): number {
    return Math.max(0, ...this.#of(lane).map((gate) => waitOf(gate, now)));
  }

  /**
   * Returns ms until an event of this lane that has just failed is due; `undefined` if no gate is shut. Unless the platform
   * asked for the wait, that is a moment before the next try of this process, so that a process whose gates are open comes first.
   */
  dueIn(now: number, lane: Lane): number | undefined {
    const shut = this.shutOf(lane);
    if (shut.length === 0) return undefined;
    const isAsked = shut.some(({ shutting }) => shutting!.askedAt !== undefined);
    return Math.max(0, this.waitAt(now, lane) - (isAsked ? 0 : HEAD_START));
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
    if (lane.kind !== undefined) this.#apply(this.#of(lane), (gate) => afterBegin(gate, read));
    return read;
  }

  /** Notes that a read, and what follows it, has ended, also without a result. */
  end(read: Read): void {
    this.#apply(this.#of(read.lane), (gate) => afterEnd(gate, read));
  }

  /** Notes that the platform answered. @param isRefusal - whether it refused the record, or did not find it */
  answered(read: Read, { isRefusal = false, now = performance.now() } = {}): void {
    const { lane } = read;
    if (read.hasResult || lane.kind === undefined) return;
    read.hasResult = true;
    remember(this.#answeredAt, laneKey(lane), now, LANES);
    this.#apply(this.#of(lane), (gate) => afterAnswer(gate, read, isRefusal));
  }

  /**
   * Notes that the platform did not answer.
   *
   * @returns whether it has answered others of the lane, or this event, after the read began or since the event's last failure
   */
  failed(read: Read, failure: FailedRead, now = performance.now()): boolean {
    const { lane } = read;
    const isAlone = this.#isAlone(read, failure, now);
    // What is about the whole account holds, although the platform has answered the attempt before.
    if ((read.hasResult && isOfRecord(failure.outage)) || lane.kind === undefined) return isAlone;
    read.hasResult = true;
    const fact = { ...failure, read, now, date: new Date(), spread: 0.9 + Math.random() / 5 };
    const ofLane = [
      this.#everything,
      ...[{ ...lane, kind: undefined }, lane].map((each) => this.#gateOf(each)),
    ];
    this.#apply(ofLane, (gate) => afterFailure(gate, fact), failure.error);
    return isAlone;
  }

  #isAlone({ beganAt, key, lane }: Read, { since }: FailedRead, now: number): boolean {
    const answeredAt = this.#answeredAt.get(laneKey(lane)) ?? Number.NEGATIVE_INFINITY;
    const failedAt = Math.max(since ?? Number.POSITIVE_INFINITY, this.#failedAt.get(key) ?? 0);
    remember(this.#failedAt, key, now, EVENTS);
    return answeredAt >= beganAt || answeredAt > failedAt;
  }

  /** Keeps the gates of a lane shut during a wait for them, although no event may wait. */
  async whileWaiting(lane: Lane, wait: () => Promise<void>): Promise<void> {
    const waiting = { ...lane };
    this.#awaited.add(waiting);
    await wait().finally(() => this.#awaited.delete(waiting));
  }

  /** Whether a gate opens if no event waits for it: it is shut, no try runs, and no pass of the reconciler waits. */
  mayOpen(gate: Gate): boolean {
    const { name, shutting, try: reading } = this.now(gate);
    const isAwaited = [...this.#awaited].some((lane) => this.#of(lane).some((each) => each.name === name));
    return shutting !== undefined && reading === undefined && !isAwaited;
  }

  /** Opens the gates of an account, because nothing of it waits any more. */
  closeAccount(account: string): void {
    this.#apply(
      [...this.#gates.values()].filter(({ lane }) => lane.account === account),
      opened,
    );
  }

  /** Opens a gate behind which nothing waits. */
  open(gate: Gate): void {
    this.#apply([this.now(gate)], opened);
  }

  /** Notes what the queue has found, or when it looks again. A gate that is open needs none of it. */
  look(gate: Gate, looked: Partial<Pick<Gate, "fresh" | "checkAt" | "quietUntil">>): void {
    this.#apply([this.now(gate)], (each) => (each.shutting ? { ...each, ...looked } : each));
  }

  /** Makes the next gates, and then tells what has changed, so that others never see only a part of it. */
  #apply(gates: readonly Gate[], fact: (gate: Gate) => Gate, error?: unknown): void {
    const changed = gates.map((gate) => [gate, fact(gate)] as const).filter(([gate, next]) => gate !== next);
    for (const [, next] of changed) this.#keep(next);
    for (const [gate, next] of changed) {
      const news = newsOf(gate, next);
      if (news === undefined) continue;
      if (news !== "waits") this.version += 1;
      this.#onNews(next, news, error);
    }
  }

  #keep(gate: Gate): void {
    if (gate.level === "everything") this.#everything = gate;
    else if (isIdle(gate)) this.#gates.delete(laneKey(gate.lane));
    else this.#gates.set(laneKey(gate.lane), gate);
  }

  /** The gates of everything, of the account and of the lane, as far as there is trouble. */
  #of(lane: Lane): readonly Gate[] {
    // Most of the time nothing is in trouble, so do not look up keys for each event.
    if (this.#gates.size === 0) return [this.#everything];
    const account = this.#gates.get(laneKey({ ...lane, kind: undefined }));
    const own = lane.kind === undefined ? undefined : this.#gates.get(laneKey(lane));
    return [this.#everything, account, own].filter((gate) => gate !== undefined);
  }

  #gateOf(lane: Lane): Gate {
    return this.#gates.get(laneKey(lane)) ?? newGate(lane.kind === undefined ? "account" : "lane", lane);
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
