// Decides whether a failed read is an outage, and pauses the reads during one.

import { errorText } from "../error-text.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { Circuit, type TrackedRead } from "./circuit.ts";
import { LONGEST_RETRY_AFTER } from "./retries.ts";
import { isAboutAll, type Testimony, type Witnesses } from "./witnesses.ts";
import { type Backoff, type Lane, laneKey, type Outage, type Pause, type PauseScope } from "./work.ts";

// Is it the platform, or is it the record? The queue and the reconciler both ask this file. A lane is the bookings or the
// listings of an account. Its rules:
//
// 1. A 429, a 401, a missing access token and an answer with Retry-After are about the whole account. All its reads pause at
//    once, for Retry-After or for the backoff.
//    If the failure says that it holds for every record of its lane, the lane pauses at once.
// 2. Any other failure to get an answer (5xx, time-out, broken connection) may be the fault of its record. Such failures
//    are evidence of an outage of the lane. The evidence suffices once two records have failed whose events had not failed
//    before, or as many records as run at once, or once an event has failed three times. An answer for the lane erases it.
// 3. If the evidence suffices, witnesses decide: up to three other records, best those that were read before.
//    witnesses.ts says which. If one of them gets an answer, the platform is up. The failed records then wait, each by
//    itself, and their reads are limited like refused ones. The answer holds for 5 s. If none gets an answer, it is an
//    outage, and the lane pauses. If there is no witness, the evidence decides, unless it is about a single record.
// 4. After the wait, the breaker is half-open. It asks the witnesses again, one a second. An answer ends the pause, and
//    failures prolong it. If there is no witness, the next attempt is the try.
// 5. An answer to any read that began in the pause ends the pause, too. A read that began before the pause does not end
//    it, and prolongs it only by a longer Retry-After.
// 6. Failures of two accounts, without an answer to any account in between, are evidence of an outage of everything. Then
//    rules 3 to 5 hold for everything, with the witnesses of all accounts. An app without accounts has one account, which
//    is everything.

/** The shortest pause for a `Retry-After` header, ms. The header may say 0, or a time that has passed. */
const SHORTEST_PAUSE = 1000;
/** The longest wait between two half-open tries, ms. The breaker shortens this limit by up to a quarter, at random. */
export const LONGEST_PAUSE = 30_000;
/** How long the answer of a witness holds, ms. */
const HOLDS = 5000;
/** An event that fails after this many failures is evidence by itself. */
const ENOUGH_ALONE = 2;
/** After a pause that was shorter, the events that were put back are due soon anyway, ms. */
const SHORT = 1000;
/** An event that was out of reach for this long may have been put back for long, by a process that has ended, ms. */
const LONG = 60_000;

/** What a failed read shows: `record` if a witness got an answer, `unclear` if the evidence does not suffice. */
export type Verdict = "outage" | "record" | "unclear";

interface CircuitBreakerOptions {
  readonly concurrency: number;
  readonly backoff: Backoff;
  /** Reads witnesses. Without it, evidence and attempts decide. */
  readonly witnesses?: Witnesses | undefined;
  readonly onPause: (pause: Pause & { readonly wait: number; readonly error: unknown }) => void;
  readonly onResume: (scope: PauseScope, account: string | undefined) => void;
  /** Called when a circuit closes and events were put back because of it: those of the account, or all, must become due. */
  readonly onRelease?: ((account: string | undefined, wasLong: boolean) => void) | undefined;
  /** Called when an account is answered that may have been shut, also if this process does not know it. */
  readonly onFoundOpen?: ((account: string | undefined) => void) | undefined;
  /** Called when attempts may begin for another reason than the end of a pause. */
  readonly onChange?: (() => void) | undefined;
}

const EVERYTHING: Lane = { account: undefined, kind: undefined };

/** How many reads of a lane may begin, and ms until that may change. */
interface Gate {
  readonly room: number;
  readonly wait: number | undefined;
}

/** Tells an outage of the platform from records that cannot be read. The rules are at the top of this file. */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  /** This many unreachable records are evidence enough. Two are enough if their events had no earlier outage. */
  readonly #enough: number;
  readonly #everything = new Circuit(EVERYTHING);
  /** The circuits of the lanes and accounts that are in trouble, and that of everything. */
  readonly #circuits = new Map<string, Circuit>([[laneKey(EVERYTHING), this.#everything]]);
  /** When the lanes were last answered, on the monotonic clock, the oldest first. Holds the last seconds only. */
  readonly #answeredAt = new Map<string, number>();
  /** The accounts that got no answer since any account was answered, and whether they were told so as a whole. */
  readonly #unanswered = { accounts: new Set<string>(), told: false };
  #epoch = 0;
  #closed = false;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
    this.#enough = Math.max(2, options.concurrency);
  }

  /** The widest pause of everything, or of an app that has one account; `undefined` if nothing of these pauses. */
  get pause(): Pause | undefined {
    const open = this.#open.filter(({ account }) => account === undefined);
    const [first] = open;
    if (first === undefined) return undefined;
    return open.length > 1 ? { ...pauseOf(first), scope: "everything" } : pauseOf(first);
  }

  /** The accounts with a shut lane, the one that is paused longest first. An account's widest pause comes alone. */
  get pausedAccounts(): readonly Pause[] {
    const open = this.#open.filter(({ account }) => account !== undefined);
    const byAccount = Map.groupBy(open, ({ account }) => account);
    return [...byAccount.values()]
      .map((circuits) => {
        const pauses = circuits.map(pauseOf);
        const whole = pauses.find(({ scope }) => scope === "account");
        const [first] = pauses.sort((a, b) => a.since.getTime() - b.since.getTime());
        return whole ?? (pauses.length > 1 ? { ...first!, scope: "account" as const } : first!);
      })
      .sort((a, b) => a.since.getTime() - b.since.getTime());
  }

  get #open(): Circuit[] {
    return [...this.#circuits.values()].filter(({ open }) => open !== undefined);
  }

  /** How many lanes and accounts are remembered, everything included. */
  get size(): number {
    return this.#circuits.size;
  }

  /** Whether everything pauses, or may have to. */
  get isAllShut(): boolean {
    return this.#everything.isShut;
  }

  /** Whether reads of this lane pause. */
  isPaused(lane: Lane): boolean {
    return this.#openOf(lane).length > 0;
  }

  /** Whether witnesses are being asked. */
  get asking(): boolean {
    return [...this.#circuits.values()].some(({ asking, judging }) => asking || judging !== undefined);
  }

  /** Whether another record of this lane has been answered within the last seconds, so that the platform is up. */
  isUp(lane: Lane): boolean {
    const now = performance.now();
    const answeredAt = this.#answeredAt.get(laneKey(lane)) ?? Number.NEGATIVE_INFINITY;
    return now < answeredAt + HOLDS || now < (this.#circuits.get(laneKey(lane))?.upUntil ?? now);
  }

  /**
   * Returns how many reads of a lane may begin, and ms until that may change. If the wait is over, asks the witnesses.
   * Without a lane, tells what holds for all lanes.
   */
  gateAt(now: number, lane: Lane = EVERYTHING): Gate {
    const shut = this.#shutOf(lane).filter((circuit) => this.#decides(circuit, now));
    if (shut.length === 0) return { room: Number.POSITIVE_INFINITY, wait: 0 };
    for (const circuit of shut) this.#halfOpenIfDue(circuit, now);
    const waits = shut.map((circuit) => circuit.waitAt(now)).filter((wait) => wait > 0);
    if (waits.length > 0) return { room: 0, wait: Math.min(...waits) };
    const isFree = shut.every(({ open, alone, trying }) => open && alone && trying === undefined);
    return { room: isFree ? 1 : 0, wait: isFree ? 0 : undefined };
  }

  /** Asks the witnesses of each pause whose wait is over. Returns ms until the next wait is over. */
  askDue(now: number): number | undefined {
    let next = Number.POSITIVE_INFINITY;
    for (const circuit of this.#circuits.values()) {
      if (!circuit.open) continue;
      this.#halfOpenIfDue(circuit, now);
      const wait = circuit.waitAt(now);
      if (wait > 0) next = Math.min(next, wait);
    }
    return next === Number.POSITIVE_INFINITY ? undefined : next;
  }

  /** Returns ms until a read of this lane may be tried. */
  waitAt(now: number, lane: Lane = EVERYTHING): number {
    return Math.max(0, ...this.#shutOf(lane).map((circuit) => circuit.waitAt(now)));
  }

  /** Returns how many times a pause of this lane has begun or was prolonged since the last answer. */
  pausesOf(lane: Lane): number {
    return Math.max(0, ...this.#openOf(lane).map(({ pauses }) => pauses));
  }

  /** Whether an event must wait for the end of a pause, or because others of its lane are tried first. */
  mustWait(claim: ClaimedEvent, lane: Lane, now: number): boolean {
    if (this.gateAt(now, lane).room === 0) return true;
    return !this.#everything.isShut && this.#openOf(lane).some((circuit) => circuit.comesLater(claim, now));
  }

  /** Returns for how long an event of a shut lane is put back, ms. It is `undefined` if nothing may be claimed now. */
  putBack(claim: ClaimedEvent, lane: Lane, now: number): number | undefined {
    if (this.#everything.isShut && this.gateAt(now).room === 0) return undefined;
    return Math.max(0, ...this.#shutOf(lane).map((circuit) => circuit.putBack(claim, now)));
  }

  /**
   * Lets half-open tries begin at once, unless `Retry-After` set the length of the pause. With an account, leaves the
   * pauses of other accounts alone.
   */
  tryNow(account?: string): void {
    for (const circuit of this.#circuits.values()) {
      if (account !== undefined && circuit.account !== undefined && circuit.account !== account) continue;
      tryNow(circuit);
      if (circuit.open && circuit.triesAttempts) this.#release(circuit);
    }
  }

  /**
   * @param record - the `ref`, or another name of what is read. `null` if nothing is read
   * @param outageFor - how long the event has been out of reach, ms
   */
  begin(record: string | null, lane: Lane, outageFor = 0): TrackedRead {
    const reading = { record: record ?? "", lane, epoch: this.#epoch, outageFor, reported: false };
    if (lane.kind !== undefined) for (const circuit of this.#openOf(lane)) circuit.trying ??= reading;
    return reading;
  }

  /** Notes that a read has ended. A half-open breaker without witnesses then lets the next attempt through. */
  end(reading: TrackedRead): void {
    for (const circuit of this.#circuitsOf(reading.lane))
      if (circuit.trying === reading) circuit.trying = undefined;
  }

  /**
   * Notes that the platform answered. The answer ends the pauses in which its read began.
   *
   * @param isRead - whether the answer was the record. If it was a refusal, the record is no witness
   */
  recordAnswer(reading: TrackedRead, isRead = false): void {
    const { lane, record, outageFor } = reading;
    if (!isFirst(reading) || lane.kind === undefined) return;
    if (isRead) this.#options.witnesses?.note(lane, record);
    this.#noteAnswer(lane);
    const circuits = this.#circuitsOf(lane);
    // Another process may have put events back, and has ended.
    if (outageFor >= LONG && !circuits.some(({ holds }) => holds)) this.#options.onFoundOpen?.(lane.account);
    for (const circuit of circuits) if (!circuit.isBefore(reading)) this.#answered(circuit);
  }

  /**
   * Notes that a read got no answer. `outages` is how often this event got none before. Resolves when it is clear whether
   * the platform is out of reach or the record is at fault.
   */
  async recordOutage(
    reading: TrackedRead,
    outages: number,
    outage: Outage,
    error: unknown,
  ): Promise<Verdict> {
    const { lane, record: ref } = reading;
    const circuit = this.#circuitFor(lane);
    if (!isFirst(reading)) return this.#verdictOf(circuit, lane);
    const failure = { outage, error, ref };
    const isOfAccount = isAboutAll(failure);
    const older = this.#openOf(lane).find((open) => open.isBefore(reading));
    if (older !== undefined && (older.kind === undefined || !isOfAccount)) {
      if (outage.retryAfter !== undefined) this.#extend(older, outage.retryAfter);
      return "outage";
    }
    const [open = circuit] = this.#openOf(lane);
    // One failed half-open attempt is enough to prolong the pause.
    if (isOfAccount || outage.wholeKind || open.open) {
      const paused = isOfAccount ? this.#circuitFor(wholeOf(lane)) : open;
      this.#pauseFor(paused, failure);
      if (lane.account !== undefined && !outage.wholeKind) await this.#noteUnanswered(lane.account, failure);
      return "outage";
    }
    note(circuit.unreached, ref, this.#enough);
    if (outages === 0) note(circuit.newlyUnreached, ref, this.#enough);
    if (lane.account !== undefined) await this.#noteUnanswered(lane.account, failure);
    if (!this.#everything.open) await this.#judgeLane(circuit, outages, failure);
    return this.#verdictOf(circuit, lane);
  }

  #verdictOf(circuit: Circuit, lane: Lane): Verdict {
    if (this.#openOf(lane).length > 0) return "outage";
    return performance.now() < circuit.upUntil ? "record" : "unclear";
  }

  close(): void {
    this.#closed = true;
    this.#options.witnesses?.close();
  }

  /** The circuits that a read of this lane waits for. */
  #shutOf(lane: Lane): Circuit[] {
    return this.#circuitsOf(lane).filter(({ isShut }) => isShut);
  }

  #openOf(lane: Lane): Circuit[] {
    return this.#circuitsOf(lane).filter(({ open }) => open !== undefined);
  }

  /** The circuits of everything, of the account and of the lane, as far as there is trouble. */
  #circuitsOf(lane: Lane): Circuit[] {
    const { account, kind } = lane;
    // Most of the time nothing is in trouble, so do not look up keys for each event.
    if (this.#circuits.size === 1) return [this.#everything];
    const whole = account === undefined ? undefined : this.#circuits.get(laneKey(wholeOf(lane)));
    const own = kind === undefined ? undefined : this.#circuits.get(laneKey(lane));
    return [this.#everything, whole, own].filter((circuit) => circuit !== undefined);
  }

  #circuitFor(lane: Lane): Circuit {
    const key = laneKey(lane);
    let circuit = this.#circuits.get(key);
    if (circuit === undefined) {
      circuit = new Circuit(lane);
      circuit.triesAttempts = this.#options.witnesses === undefined;
      this.#circuits.set(key, circuit);
    }
    return circuit;
  }

  #noteAnswer(lane: Lane): void {
    const now = performance.now();
    const key = laneKey(lane);
    this.#answeredAt.delete(key);
    this.#answeredAt.set(key, now);
    for (const [oldest, at] of this.#answeredAt) {
      if (now < at + HOLDS) break;
      this.#answeredAt.delete(oldest);
    }
    this.#unanswered.accounts.clear();
  }

  /** Asks witnesses whether a lane is out of reach, if the evidence suffices. */
  async #judgeLane(circuit: Circuit, outages: number, failure: Failure): Promise<void> {
    const { newlyUnreached, unreached } = circuit;
    const isEnough = newlyUnreached.size >= 2 || unreached.size >= this.#enough;
    const isAlone = !isEnough && outages >= ENOUGH_ALONE && !this.isUp(circuit);
    if ((!isEnough && !isAlone) || performance.now() < circuit.upUntil) return;
    await this.#judge(
      circuit,
      failure,
      () => circuit.unreached.size > 0 && !this.isPaused(circuit),
      isEnough,
    );
  }

  /**
   * Notes that an account got no answer. If it is the second one, and no account was answered in between, asks witnesses
   * whether everything is out of reach.
   */
  async #noteUnanswered(account: string, failure: Failure): Promise<void> {
    const all = this.#everything;
    const { accounts } = this.#unanswered;
    const told = isAboutAll(failure);
    if (told !== this.#unanswered.told) {
      accounts.clear();
      all.forget();
    }
    this.#unanswered.told = told;
    note(accounts, account, this.#enough);
    note(all.unreached, failure.ref, this.#enough);
    if (accounts.size < 2 || all.open || performance.now() < all.upUntil) return;
    await this.#judge(all, failure, () => accounts.size >= 2 && !all.open, true);
  }

  /**
   * Asks witnesses whether a circuit must open.
   *
   * @param isStill - whether the question still matters: meanwhile, a record may have got an answer
   * @param decides - whether the evidence decides if there is no witness
   */
  async #judge(circuit: Circuit, failure: Failure, isStill: () => boolean, decides: boolean): Promise<void> {
    const { witnesses } = this.#options;
    if (witnesses === undefined) {
      if (decides) this.#pauseFor(circuit, failure);
      return;
    }
    if (!circuit.judging) {
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      circuit.judging = { ended, end };
      circuit.shutAt = performance.now();
      const judging = circuit.judging;
      const isNeeded = (): boolean => !this.#closed && circuit.judging === judging && isStill();
      void this.#testimonyOn(circuit, isNeeded, true).then((testimony) => {
        if (isNeeded()) {
          if (testimony === "answered") {
            circuit.upUntil = performance.now() + HOLDS;
            circuit.forget();
            this.#unanswered.accounts.clear();
          } else if (testimony !== "none") this.#pauseAs(circuit, testimony);
          else if (decides) this.#pauseFor(circuit, failure);
        }
        this.#endJudging(circuit, judging);
      });
    }
    await circuit.judging.ended;
  }

  #endJudging(circuit: Circuit, judging = circuit.judging): void {
    if (judging === undefined || circuit.judging !== judging) return;
    circuit.judging = undefined;
    judging.end();
    if (!circuit.open) {
      this.#release(circuit);
      circuit.shutAt = undefined;
    }
    this.#options.onChange?.();
  }

  #testimonyOn(circuit: Circuit, isNeeded: () => boolean, onlyOthers = false): Promise<Testimony> {
    const isAll = circuit === this.#everything;
    const { accounts, told } = this.#unanswered;
    return this.#options.witnesses!.ask(isAll ? undefined : circuit, {
      failing: circuit.unreached,
      avoided: isAll && told ? accounts : undefined,
      isNeeded,
      onlyOthers,
    });
  }

  #halfOpenIfDue(circuit: Circuit, now: number): void {
    if (circuit.open && circuit.waitAt(now) === 0 && !this.#isWithin(circuit)) this.#halfOpen(circuit);
  }

  /** Whether a wider pause holds, too. The answer to the wider question comes first. */
  #isWithin(circuit: Circuit): boolean {
    return this.#openOf(circuit).some((open) => isWider(open, circuit));
  }

  /** Whether a read must wait for this circuit. A try of a wider pause need not, unless the platform asked for a wait. */
  #decides(circuit: Circuit, now: number): boolean {
    return !this.#isWithin(circuit) || (circuit.open?.asked === true && circuit.waitAt(now) > 0);
  }

  /** Asks witnesses whether a pause is over. */
  #halfOpen(circuit: Circuit): void {
    if (this.#options.witnesses === undefined) this.#tryAttempts(circuit);
    if (circuit.alone || circuit.asking || this.#closed) return;
    circuit.asking = true;
    const { epoch } = circuit;
    const isStill = () => !this.#closed && circuit.open !== undefined && circuit.epoch === epoch;
    void this.#testimonyOn(circuit, isStill).then((testimony) => {
      circuit.asking = false;
      if (!isStill()) return this.#options.onChange?.();
      if (testimony === "answered") this.#answered(circuit);
      else if (testimony !== "none") this.#pauseAs(circuit, testimony);
      else {
        this.#tryAttempts(circuit);
        this.#options.onChange?.();
      }
    });
  }

  /** Lets the next attempt be the try. */
  #tryAttempts(circuit: Circuit): void {
    circuit.alone = true;
    circuit.triesAttempts = true;
  }

  /** An answer came that belongs to this circuit. */
  #answered(circuit: Circuit): void {
    circuit.forget();
    this.#endJudging(circuit);
    if (circuit.open) {
      this.#release(circuit);
      circuit.open = undefined;
      circuit.shutAt = undefined;
      circuit.triesAttempts = this.#options.witnesses === undefined;
      circuit.pauses = 0;
      // Lanes and accounts that paused for the same reason need not wait longer.
      if (circuit.kind === undefined)
        for (const narrower of this.#open) if (isWider(circuit, narrower)) tryNow(narrower);
      this.#options.onResume(circuit.scope, circuit.account);
    }
    if (circuit !== this.#everything && circuit.isIdleAt(performance.now()))
      this.#circuits.delete(laneKey(circuit));
  }

  /** Lets the events become due that were put back because of this circuit. */
  #release(circuit: Circuit): void {
    const { holds, shutAt } = circuit;
    const age = performance.now() - (shutAt ?? Number.POSITIVE_INFINITY);
    circuit.holds = false;
    // The waits are not longer than the pause. Bad records that were tried keep theirs, or a flapping lane reads them all.
    if (holds && (circuit.open !== undefined || age >= SHORT))
      this.#options.onRelease?.(circuit.account, age >= LONG);
  }

  #pauseAs(circuit: Circuit, failure: Failure): void {
    const isWhole = isAboutAll(failure) && circuit !== this.#everything;
    this.#pauseFor(isWhole ? this.#circuitFor(wholeOf(circuit)) : circuit, failure);
  }

  #pauseFor(circuit: Circuit, { outage, error, ref }: Failure): void {
    const now = performance.now();
    circuit.pauses += 1;
    this.#epoch += 1;
    circuit.epoch = this.#epoch;
    circuit.alone = false;
    // The callback of an attempt that ended an earlier pause may still run. It must not block the tries in this pause.
    circuit.trying = undefined;
    circuit.shutAt ??= now;
    const asked = outage.retryAfter !== undefined;
    const wait = asked
      ? Math.min(Math.max(outage.retryAfter ?? 0, SHORTEST_PAUSE), LONGEST_RETRY_AFTER)
      : Math.round(Math.min(this.#options.backoff(circuit.pauses), LONGEST_PAUSE * (1 - Math.random() / 4)));
    const { scope, account } = circuit;
    const since = circuit.open?.since ?? new Date();
    const pause = { scope, ...(account !== undefined && { account }), since, reason: errorText(error), ref };
    circuit.open = { ...pause, asked, until: now + wait };
    this.#options.onPause({ ...pause, wait, error });
  }

  #extend(circuit: Circuit, retryAfter: number): void {
    const until = performance.now() + Math.min(retryAfter, LONGEST_RETRY_AFTER);
    if (circuit.open && until > circuit.open.until) circuit.open = { ...circuit.open, until, asked: true };
  }
}

type Failure = Exclude<Testimony, string>;

/** Returns the account of a lane. In an app that has one account, that is everything. */
function wholeOf({ account }: Lane): Lane {
  return { account, kind: undefined };
}

function isFirst(reading: TrackedRead): boolean {
  if (reading.reported) return false;
  reading.reported = true;
  return true;
}

/** Adds to a set of limited size, because a long outage must not fill the memory. */
function note(set: Set<string>, name: string, most: number): void {
  if (set.size < most) set.add(name);
}

function tryNow(circuit: Circuit): void {
  if (circuit.open && !circuit.open.asked)
    circuit.open = { ...circuit.open, until: Number.NEGATIVE_INFINITY };
}

/** Whether a pause of `wide` pauses the reads of `narrow`, too. */
function isWider(wide: Circuit, narrow: Circuit): boolean {
  if (wide === narrow || wide.kind !== undefined) return false;
  return wide.account === undefined || (wide.account === narrow.account && narrow.kind !== undefined);
}

function pauseOf({ open }: Circuit): Pause {
  const { scope, account, since, reason, ref } = open!;
  return { scope, ...(account !== undefined && { account }), since, reason, ref };
}
