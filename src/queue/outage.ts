import type { Backoff } from "./backoff.ts";
import type { Outage } from "./work.ts";

/** The longest wait between two rounds of probes, ms. Up to a quarter less, or each might meet a platform that comes and goes at the same moment of its round. */
const LONGEST_WAIT = 60_000;
/** The longest wait that the other side can ask for, for all records or for one, ms. */
export const LONGEST_RETRY_AFTER = 15 * 60_000;

export interface OutageGateOptions {
  readonly concurrency: number;
  readonly backoff: Backoff;
  readonly onPause: (pause: {
    readonly wait: number;
    readonly cause: PauseCause;
    readonly error: unknown;
  }) => void;
  readonly onResume: () => void;
}

export type PauseCause = "unreachable" | "refused";

interface Pause {
  readonly cause: PauseCause;
  /** When to probe, on the monotonic clock. */
  readonly until: number;
  /** It concerns every record, so that an answer to an older question does not end it. */
  readonly firm: boolean;
  /** The other side asked for the wait. */
  readonly asked: boolean;
}

/**
 * Weighs the evidence of all attempts: is it this record that cannot be read, or is the other side out of
 * reach? One bad record must not stop the others, and a dead platform must not be hammered.
 */
export class OutageGate {
  readonly #options: OutageGateOptions;
  /** Fewer than two records prove nothing about the rest. */
  readonly #enough: number;
  /** Records out of reach since the last answer; among them those that had not failed before. */
  readonly #unreached = new Set<string>();
  readonly #newlyUnreached = new Set<string>();
  /** Records refused in a row, with no success in between. */
  readonly #refused = new Set<string>();
  #pause: Pause | undefined;
  /** Pauses in a row. */
  #pauses = 0;
  /** Rises with each pause: tells evidence gathered before it from what came after. */
  #epoch = 0;

  constructor(options: OutageGateOptions) {
    this.#options = options;
    this.#enough = Math.max(2, options.concurrency);
  }

  get paused(): boolean {
    return this.#pause !== undefined;
  }

  /** It pauses because record after record is refused, not because nobody answers. */
  get refusing(): boolean {
    return this.#pause?.cause === "refused";
  }

  /** ms until probes may go out; 0 when they may, or when there is no pause. */
  get wait(): number {
    return this.#pause ? Math.max(0, this.#pause.until - performance.now()) : 0;
  }

  /** How many attempts may begin beside those that run: all that are free, or while it waits, none. */
  allowance(running: number): number {
    return this.wait > 0 ? 0 : Math.max(0, this.#options.concurrency - running);
  }

  /** Somebody asks for work to be done now: probes may go out at once, unless the other side asked for the wait. */
  probeNow(): void {
    if (this.#pause && !this.#pause.asked) this.#pause = { ...this.#pause, until: 0 };
  }

  /** An attempt begins; what it learns is reported to what this returns. */
  begin(record: string): Evidence {
    return new Evidence(this, record, this.#epoch);
  }

  /** As {@link begin}, for an attempt out of turn: it may end a pause, but not prolong it. */
  beginOutOfTurn(record: string): Evidence {
    return new Evidence(this, record, this.#pause ? this.#epoch - 1 : this.#epoch);
  }

  /** @internal */
  answered(epoch: number): void {
    if (this.#pause?.firm && epoch < this.#epoch) return;
    this.#unreached.clear();
    this.#newlyUnreached.clear();
    this.#refused.clear();
    this.#resume();
  }

  /** @internal */
  refused(record: string, epoch: number, error: unknown): void {
    this.#note(this.#refused, record);
    const late = epoch < this.#epoch && (this.#pause?.firm || this.#pause?.cause === "refused");
    if (late) return;
    // It is an answer, if not a success: the other side is there.
    this.#unreached.clear();
    this.#newlyUnreached.clear();
    if (this.#refused.size >= this.#enough) this.#pauseFor("refused", error);
    else this.#resume();
  }

  /** @internal */
  unreachable(record: string, epoch: number, first: boolean, outage: Outage, error: unknown): void {
    // What was on its way when the pause began says nothing new, unless it brings a longer wait.
    if (this.#pause && epoch < this.#epoch) {
      if (outage.retryAfter !== undefined) this.#extend(outage.retryAfter);
      return;
    }
    this.#note(this.#unreached, record);
    if (first) this.#note(this.#newlyUnreached, record);
    const everything = outage.everything || outage.retryAfter !== undefined;
    const enough = this.#newlyUnreached.size >= 2 || this.#unreached.size >= this.#enough;
    // A probe that finds nobody prolongs the pause by itself.
    if (this.#pause || everything || enough) this.#pauseFor("unreachable", error, outage);
  }

  /** The sets only have to tell "enough": they must not grow with an outage. */
  #note(set: Set<string>, record: string): void {
    if (set.size < this.#enough) set.add(record);
  }

  #pauseFor(cause: PauseCause, error: unknown, outage?: Outage): void {
    this.#pauses += 1;
    this.#epoch += 1;
    const asked = outage?.retryAfter !== undefined;
    const wait = asked
      ? Math.min(outage.retryAfter ?? 0, LONGEST_RETRY_AFTER)
      : Math.round(Math.min(this.#options.backoff(this.#pauses), LONGEST_WAIT * (1 - Math.random() / 4)));
    const firm = asked || outage?.everything === true;
    this.#pause = { cause, firm, asked, until: performance.now() + wait };
    this.#options.onPause({ wait, cause, error });
  }

  #extend(retryAfter: number): void {
    const until = performance.now() + Math.min(retryAfter, LONGEST_RETRY_AFTER);
    if (this.#pause && until > this.#pause.until) {
      this.#pause = { ...this.#pause, until, firm: true, asked: true };
    }
  }

  #resume(): void {
    if (!this.#pause) return;
    this.#pause = undefined;
    this.#pauses = 0;
    this.#options.onResume();
  }
}

/** What one attempt learns of the other side. The first word counts. */
export class Evidence {
  readonly #gate: OutageGate;
  readonly #record: string;
  readonly #epoch: number;
  #given = false;

  constructor(gate: OutageGate, record: string, epoch: number) {
    this.#gate = gate;
    this.#record = record;
    this.#epoch = epoch;
  }

  answered(): void {
    if (this.#first()) this.#gate.answered(this.#epoch);
  }

  refused(error: unknown): void {
    if (this.#first()) this.#gate.refused(this.#record, this.#epoch, error);
  }

  unreachable(first: boolean, outage: Outage, error: unknown): void {
    if (this.#first()) this.#gate.unreachable(this.#record, this.#epoch, first, outage, error);
  }

  #first(): boolean {
    if (this.#given) return false;
    this.#given = true;
    return true;
  }
}
