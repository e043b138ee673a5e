// Decides whether a failed read is an outage, and pauses the reads during one.

import { errorText } from "../errors.ts";
import { LONGEST_RETRY_AFTER } from "./retries.ts";
import type { Testimony, Witnesses } from "./witnesses.ts";
import { type Backoff, type Kind, kindOf, type Outage, type Pause, type PauseScope } from "./work.ts";

// Is it the platform, or is it the record? The queue and the reconciler both ask this file. Its rules:
//
// 1. A 429, a 401, a missing access token and an answer with Retry-After are about everything. All reads pause at once,
//    for Retry-After or for the backoff.
//    If the failure says that it holds for every record of its kind, the kind pauses at once.
// 2. Any other failure to get an answer (5xx, time-out, broken connection) may be the fault of its record. Such failures
//    are evidence: of an outage of bookings or of listings, each kind apart. The evidence suffices once two records have
//    failed whose events had not failed before, or as many records as run at once. An answer for the kind erases it.
// 3. If the evidence suffices, witnesses decide: up to three other records, best those that were read before.
//    witnesses.ts says which. If one of them gets an answer, the platform is up. The failed records then wait, each by
//    itself, and their reads are limited like refused ones. The answer holds for 5 s. If none gets an answer, it is an
//    outage, and the kind pauses. If there is no witness, the evidence decides.
// 4. After the wait, the breaker is half-open. It asks the witnesses again, one a second. An answer ends the pause, and
//    failures prolong it. If there is no witness, the next attempt is the try.
// 5. An answer to any read that began in the pause ends the pause, too. A read that began before the pause does not end
//    it, and prolongs it only by a longer Retry-After.

/** The shortest pause for a `Retry-After` header, ms. The header may say 0, or a time that has passed. */
const SHORTEST_PAUSE = 1000;
/** The longest wait between two half-open tries, ms. The breaker shortens this limit by up to a quarter, at random. */
export const LONGEST_PAUSE = 30_000;
/** How long the answer of a witness holds, ms. */
const HOLDS = 5000;

/** What a failed read shows: `record` if a witness got an answer, `unclear` if the evidence does not suffice. */
export type Verdict = "outage" | "record" | "unclear";

interface CircuitBreakerOptions {
  readonly concurrency: number;
  readonly backoff: Backoff;
  /** Reads witnesses. Without it, evidence and attempts decide. */
  readonly witnesses?: Witnesses | undefined;
  readonly onPause: (pause: Pause & { readonly wait: number; readonly error: unknown }) => void;
  readonly onResume: (scope: PauseScope) => void;
  /** Called when attempts may begin for another reason than the end of a pause. */
  readonly onChange?: (() => void) | undefined;
}

interface OpenState extends Pause {
  /** When half-open tries may begin, on the monotonic clock. */
  readonly until: number;
  /** Whether `until` comes from `Retry-After`. */
  readonly asked: boolean;
}

/** The circuit breaker's data about one read. The breaker ignores all but the first result of the read. */
export interface Reading {
  readonly record: string;
  /** It is `undefined` for an event without a record, which reads nothing. */
  readonly kind: Kind | undefined;
  readonly epoch: number;
  reported: boolean;
}

/** What the breaker knows about bookings, listings, or everything. */
class Circuit {
  readonly scope: PauseScope;
  open: OpenState | undefined;
  /** A reading with a lower `epoch` began before the last pause. */
  epoch = 0;
  /** The number of pauses since the last answer. */
  pauses = 0;
  /** The records that were out of reach since the last answer. */
  readonly unreached = new Set<string>();
  /** The records in `unreached` whose event had no earlier outage. */
  readonly newlyUnreached = new Set<string>();
  /** When the last answer came, on the monotonic clock. */
  answeredAt = Number.NEGATIVE_INFINITY;
  /** Until when the answer of a witness holds, on the monotonic clock. */
  upUntil = Number.NEGATIVE_INFINITY;
  /** The witnesses are being asked whether this is an outage. */
  judging: Promise<void> | undefined;
  /** The witnesses are being asked whether the pause is over. */
  asking = false;
  /** There is no witness, so that an attempt must try. */
  alone = false;
  /** The attempt that a half-open breaker without witnesses has let through. */
  trying: Reading | undefined;

  constructor(scope: PauseScope) {
    this.scope = scope;
  }

  /** Whether no read begins now: this is an outage, or it is not clear yet. */
  get isShut(): boolean {
    return this.open !== undefined || this.judging !== undefined;
  }

  isBefore({ epoch }: Reading): boolean {
    return this.open !== undefined && epoch < this.epoch;
  }

  waitAt(now: number): number {
    return this.open === undefined ? 0 : Math.max(0, this.open.until - now);
  }

  forget(): void {
    this.unreached.clear();
    this.newlyUnreached.clear();
  }
}

/** Tells an outage of the platform from records that cannot be read. The rules are at the top of this file. */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  /** This many unreachable records are evidence enough. Two are enough if their events had no earlier outage. */
  readonly #enough: number;
  readonly #everything = new Circuit("everything");
  readonly #kinds = { bookings: new Circuit("bookings"), listings: new Circuit("listings") };
  readonly #circuits = [this.#everything, this.#kinds.bookings, this.#kinds.listings];
  #epoch = 0;
  #closed = false;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
    this.#enough = Math.max(2, options.concurrency);
  }

  /** The widest pause; `undefined` if nothing pauses. */
  get pause(): Pause | undefined {
    const open = this.#circuits.flatMap((circuit) => circuit.open ?? []);
    const [first] = open;
    if (first === undefined) return undefined;
    const { since, reason, ref } = first;
    return { since, reason, ref, scope: open.length > 1 ? "everything" : first.scope };
  }

  /** Whether reads of this kind pause. */
  isPaused(kind: Kind): boolean {
    return this.#openOf(kind).length > 0;
  }

  /** The kinds whose reads must not begin while other events go on. It is empty if nothing or everything pauses. */
  get shutKinds(): readonly Kind[] {
    if (this.#everything.open) return [];
    return (["bookings", "listings"] as const).filter((kind) => this.#kinds[kind].isShut);
  }

  /** Whether witnesses are being asked. */
  get asking(): boolean {
    return this.#circuits.some(({ asking, judging }) => asking || judging !== undefined);
  }

  /** Whether another record of this kind has been answered within the last seconds, so that the platform is up. */
  isUp(kind: Kind): boolean {
    const { answeredAt, upUntil } = this.#kinds[kind];
    const now = performance.now();
    return now < upUntil || now < answeredAt + HOLDS;
  }

  /**
   * Returns how many reads of a kind may begin, and ms until that may change. If the wait is over, asks the witnesses.
   * `undefined` stands for reads of any kind, `null` for an event that reads nothing.
   */
  gateAt(now: number, kind?: Kind | null): { readonly room: number; readonly wait: number | undefined } {
    const open = this.#waitingFor(kind);
    if (open.length === 0) return { room: Number.POSITIVE_INFINITY, wait: 0 };
    for (const circuit of open) if (circuit.open && circuit.waitAt(now) === 0) this.#halfOpen(circuit);
    const waits = open.map((circuit) => circuit.waitAt(now)).filter((wait) => wait > 0);
    if (waits.length > 0) return { room: 0, wait: Math.min(...waits) };
    const isFree = open.every(({ open, alone, trying }) => open && alone && trying === undefined);
    return { room: isFree ? 1 : 0, wait: isFree ? 0 : undefined };
  }

  /** Returns ms until a read of this kind may be tried. */
  waitAt(now: number, kind?: Kind): number {
    return Math.max(0, ...this.#waitingFor(kind).map((circuit) => circuit.waitAt(now)));
  }

  /** Returns how many times a pause of this kind has begun or was prolonged since the last answer. */
  pausesOf(kind: Kind): number {
    return Math.max(0, ...this.#openOf(kind).map(({ pauses }) => pauses));
  }

  /** Lets half-open tries begin at once, unless `Retry-After` set the length of the pause. */
  tryNow(): void {
    for (const circuit of this.#circuits) {
      if (circuit.open && !circuit.open.asked)
        circuit.open = { ...circuit.open, until: Number.NEGATIVE_INFINITY };
    }
  }

  /** @param record - the `ref`, or another name of what is read. `null` if nothing is read */
  begin(record: string | null): Reading {
    const kind = record === null ? undefined : kindOf(record);
    const reading = { record: record ?? "", kind, epoch: this.#epoch, reported: false };
    if (kind !== undefined) for (const circuit of this.#openOf(kind)) circuit.trying ??= reading;
    return reading;
  }

  /** Notes that a read has ended. A half-open breaker without witnesses then lets the next attempt through. */
  end(reading: Reading): void {
    for (const circuit of this.#circuits) if (circuit.trying === reading) circuit.trying = undefined;
  }

  /**
   * Notes that the platform answered. The answer ends the pauses in which its read began.
   *
   * @param isRead - whether the answer was the record. If it was a refusal, the record is no witness
   */
  recordAnswer(reading: Reading, isRead = false): void {
    if (!isFirst(reading) || reading.kind === undefined) return;
    if (isRead) this.#options.witnesses?.note(reading.kind, reading.record);
    for (const circuit of [this.#everything, this.#kinds[reading.kind]])
      if (!circuit.isBefore(reading)) this.#answered(circuit);
  }

  /**
   * Notes that a read got no answer. `first` is `true` if this event had no outage before. Resolves when it is clear
   * whether the platform is out of reach or the record is at fault.
   */
  async recordOutage(reading: Reading, first: boolean, outage: Outage, error: unknown): Promise<Verdict> {
    const { kind = "bookings", record: ref } = reading;
    const circuit = this.#kinds[kind];
    if (!isFirst(reading)) return this.#verdictOf(circuit);
    const isAboutAll = outage.everything || outage.retryAfter !== undefined;
    const older = this.#openOf(kind).find((open) => open.isBefore(reading));
    if (older !== undefined && (older === this.#everything || !isAboutAll)) {
      if (outage.retryAfter !== undefined) this.#extend(older, outage.retryAfter);
      return "outage";
    }
    const [open = circuit] = this.#openOf(kind);
    // One failed half-open attempt is enough to prolong the pause.
    if (isAboutAll || outage.wholeKind || open.open) {
      this.#pauseFor(isAboutAll ? this.#everything : open, { outage, error, ref });
      return "outage";
    }
    this.#note(circuit.unreached, ref);
    if (first) this.#note(circuit.newlyUnreached, ref);
    const isEnough = circuit.newlyUnreached.size >= 2 || circuit.unreached.size >= this.#enough;
    if (!isEnough || performance.now() < circuit.upUntil) return this.#verdictOf(circuit);
    const { witnesses } = this.#options;
    if (witnesses === undefined) this.#pauseFor(circuit, { outage, error, ref });
    else {
      circuit.judging ??= this.#judge(circuit, kind, witnesses, { outage, error, ref });
      await circuit.judging;
    }
    return this.#verdictOf(circuit);
  }

  #verdictOf(circuit: Circuit): Verdict {
    if (circuit.open ?? this.#everything.open) return "outage";
    return performance.now() < circuit.upUntil ? "record" : "unclear";
  }

  /** Ends all questions. */
  close(): void {
    this.#closed = true;
    this.#options.witnesses?.close();
  }

  /** The circuits that a read of this kind waits for. */
  #waitingFor(kind: Kind | null | undefined): Circuit[] {
    const circuits = kind === undefined ? this.#circuits : this.#circuitsOf(kind);
    return circuits.filter(({ isShut }) => isShut);
  }

  #openOf(kind: Kind): Circuit[] {
    return this.#circuitsOf(kind).filter(({ open }) => open !== undefined);
  }

  #circuitsOf(kind: Kind | null): Circuit[] {
    return kind === null ? [this.#everything] : [this.#everything, this.#kinds[kind]];
  }

  /** Asks witnesses whether a kind is out of reach. */
  async #judge(circuit: Circuit, kind: Kind, witnesses: Witnesses, failure: Failure): Promise<void> {
    const isStill = () => !this.#closed && circuit.unreached.size > 0 && !this.isPaused(kind);
    const testimony = await witnesses.ask(kind, circuit.unreached, isStill, true);
    circuit.judging = undefined;
    this.#options.onChange?.();
    // Meanwhile, a record may have got an answer, or everything may pause.
    if (!isStill()) return;
    if (testimony === "answered") {
      circuit.upUntil = performance.now() + HOLDS;
      circuit.forget();
    } else this.#pauseAs(circuit, testimony === "none" ? failure : testimony);
  }

  /** Asks witnesses whether a pause is over. */
  #halfOpen(circuit: Circuit): void {
    const { witnesses } = this.#options;
    if (witnesses === undefined) circuit.alone = true;
    if (circuit.alone || circuit.asking || this.#closed) return;
    circuit.asking = true;
    const { epoch, scope } = circuit;
    const kind = scope === "everything" ? undefined : scope;
    const isStill = () => !this.#closed && circuit.open !== undefined && circuit.epoch === epoch;
    void witnesses!.ask(kind, circuit.unreached, isStill).then((testimony) => {
      circuit.asking = false;
      if (!isStill()) return this.#options.onChange?.();
      if (testimony === "answered") this.#answered(circuit);
      else if (testimony !== "none") this.#pauseAs(circuit, testimony);
      else {
        circuit.alone = true;
        this.#options.onChange?.();
      }
    });
  }

  /** An answer came that belongs to this circuit. */
  #answered(circuit: Circuit): void {
    circuit.forget();
    circuit.answeredAt = performance.now();
    if (!circuit.open) return;
    circuit.open = undefined;
    circuit.pauses = 0;
    this.#options.onResume(circuit.scope);
  }

  /** Adds to a set of limited size, because a long outage must not fill the memory. */
  #note(set: Set<string>, record: string): void {
    if (set.size < this.#enough) set.add(record);
  }

  #pauseAs(circuit: Circuit, failure: Failure): void {
    const { everything, retryAfter } = failure.outage;
    this.#pauseFor(everything || retryAfter !== undefined ? this.#everything : circuit, failure);
  }

  #pauseFor(circuit: Circuit, { outage, error, ref }: Failure): void {
    circuit.pauses += 1;
    this.#epoch += 1;
    circuit.epoch = this.#epoch;
    circuit.alone = false;
    // The callback of an attempt that ended an earlier pause may still run. It must not block the tries in this pause.
    circuit.trying = undefined;
    const asked = outage.retryAfter !== undefined;
    const wait = asked
      ? Math.min(Math.max(outage.retryAfter ?? 0, SHORTEST_PAUSE), LONGEST_RETRY_AFTER)
      : Math.round(Math.min(this.#options.backoff(circuit.pauses), LONGEST_PAUSE * (1 - Math.random() / 4)));
    const { scope } = circuit;
    const pause = { scope, since: circuit.open?.since ?? new Date(), reason: errorText(error), ref };
    circuit.open = { ...pause, asked, until: performance.now() + wait };
    this.#options.onPause({ ...pause, wait, error });
  }

  #extend(circuit: Circuit, retryAfter: number): void {
    const until = performance.now() + Math.min(retryAfter, LONGEST_RETRY_AFTER);
    if (circuit.open && until > circuit.open.until) circuit.open = { ...circuit.open, until, asked: true };
  }
}

type Failure = Exclude<Testimony, string>;

function isFirst(reading: Reading): boolean {
  if (reading.reported) return false;
  reading.reported = true;
  return true;
}
