// The reads of a pass: when the gates let them through, and when an outage stops the pass.

import { splitKey } from "../account.ts";
import { pause } from "../async.ts";
import type { RequestOptions } from "../client/client-options.ts";
import { isOfRecord } from "../queue/gate.ts";
import type { Gates } from "../queue/gates.ts";
import { type Backoff, type Lane, type LaneKind, lanesOf, type Outage } from "../queue/work.ts";
import type { Doubt } from "../webhooks/processing/gone-witness.ts";
import { fetchFailure } from "../webhooks/processing/record.ts";
import { beginningOf } from "../webhooks/refs.ts";
import type { Incomplete, Settings } from "./options.ts";

/** How many times a pass tries to read one record while the platform is out of reach. */
const TRIES = 3;
/** The longest wait before another try at a record while its gates are open, ms. It grows with the tries. */
const LONGEST_BACKOFF = 1000;
/** The pass stops when so many tries in a row have failed at a gate, the failure that shut it included. */
const ROUNDS = 3;
/** The longest wait within a pass, ms. If a longer wait is needed, the pass stops and the next pass continues. */
const LONGEST_WAIT = 60_000;
/** The same for one of several accounts, so that its pass soon makes room for others. */
const LONGEST_WAIT_OF_ACCOUNT = 5000;
/** How often a read looks whether a shut gate lets it through, ms. */
const LOOK_AGAIN = 50;
/** How long one read waits for waiting events at most, ms: if this process handles events, and if it does not. */
const [PATIENCE, PATIENCE_WITH_OTHERS] = [5000, 1000];

/** Why a pass stops before its end. The first reason counts. */
export class StopReason {
  /** Why the pass stops. It is `undefined` while the pass continues. */
  reason: Incomplete | undefined;
  /** How long the platform must be left alone, ms. */
  retryAfter: number | undefined;
  readonly #abort = new AbortController();

  /** @param aborting - stops the pass as `aborted` */
  constructor(aborting?: AbortSignal) {
    const abort = (): void => this.stop("aborted");
    if (aborting?.aborted) abort();
    else aborting?.addEventListener("abort", abort);
  }

  /** Aborts the requests in flight when the pass stops. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  stop(reason: Incomplete, retryAfter?: number): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.retryAfter = retryAfter;
    this.#abort.abort(new DOMException(`The pass stops: ${reason}.`, "AbortError"));
  }
}

interface Failure {
  readonly error: unknown;
  /** Whether the platform answered. If `true`, the failure affects only this record. */
  readonly answered: boolean;
}

/** The result of a read. It is `undefined` if the pass stopped before an answer. */
export type Read<T> = { readonly value: T } | Failure | undefined;

interface ReaderOptions extends Pick<Settings, "rate"> {
  readonly account?: string | undefined;
  readonly store: Pick<Settings["store"], "nextDue">;
  readonly internals: Pick<Settings["internals"], "handlesEvents">;
  readonly stop: StopReason;
  /** The gates of the handler's queue, which shares its outages with the pass. */
  readonly gates: Gates;
  readonly backoff: Backoff;
  /** Whether the user asked for the pass. If so, a wait keeps the process alive, and a pause does not hold up the first read. */
  readonly asked: boolean;
}

/** Reads from the platform when the gates allow it, and stops the pass in an outage. */
export class Reader {
  readonly #options: ReaderOptions;
  #triesAtOnce: boolean;
  readonly #rate: RateLimit;
  /** Whether no process seems to handle the events that wait. */
  #eventsStay = false;
  /** A pass that the user asked for does not count the failed tries before it. */
  readonly #failuresBefore: Readonly<Record<LaneKind, number>>;

  /** Whether the platform has answered any request. */
  answered = false;

  constructor(options: ReaderOptions) {
    this.#options = options;
    const { account, asked, gates, rate } = options;
    this.#rate = new RateLimit(rate);
    this.#triesAtOnce = asked;
    const before = (kind: LaneKind): number => (asked ? gates.failuresOf({ account, kind }) : 0);
    this.#failuresBefore = { bookings: before("bookings"), listings: before("listings") };
  }

  /** Waits until a read may begin. Resolves to `false` if the pass stops. @param name - what is read */
  async turn(name: string): Promise<boolean> {
    const { stop, asked } = this.#options;
    if (!(await this.#isReady(name))) return false;
    await this.#letEventsGoFirst();
    await this.#rate.next(stop.signal, asked);
    return !stop.signal.aborted;
  }

  /** @param name - the record's `ref`, or another name for what is read */
  async read<T>(name: string, ask: (options: RequestOptions) => PromiseLike<T>): Promise<Read<T>> {
    const { stop, gates, backoff, asked } = this.#options;
    const { signal } = stop;
    let failure: Failure | undefined;
    let since: number | undefined;
    for (let tries = 1; tries <= TRIES && (await this.turn(name)); tries += 1) {
      const lane = this.#laneOfRead(name);
      const reading = gates.begin(name, lane);
      try {
        // Do not let the client retry: the client's retries would ignore the gates.
        const value = await ask({ signal, maxRetries: 0 });
        this.answered = true;
        gates.answered(reading);
        return { value };
      } catch (error) {
        if (signal.aborted) return failure;
        const { outage, refused: isRefusal = false } = fetchFailure(error);
        failure = { error, answered: !outage };
        if (!outage) {
          this.answered = true;
          gates.answered(reading, { isRefusal });
          return failure;
        }
        const isAlone = gates.failed(reading, { outage, error, isFirst: tries === 1, since });
        since = performance.now();
        // If the platform answers for other records of the lane, this failure affects only this one.
        if (isAlone && isOfRecord(outage) && !gates.isShut(lane)) {
          failure = { error, answered: true };
          this.answered = true;
        } else this.#outOfReach(outage, name);
      } finally {
        gates.end(reading);
      }
      if (!gates.isShut(lane) && tries < TRIES)
        await pause(Math.min(backoff(tries), LONGEST_BACKOFF * tries), signal, asked);
    }
    return failure;
  }

  /** Reports that a record was not found, and nothing else either, so that the events of its kind wait. */
  doubt(ref: string, { error, outage }: Doubt): void {
    const { gates } = this.#options;
    const reading = gates.begin(ref, this.#laneOfRead(ref));
    gates.failed(reading, { outage, error, isFirst: true });
    gates.end(reading);
  }

  /** Waits while events wait, because they share the platform's limits with the pass. */
  async #letEventsGoFirst(): Promise<void> {
    const { stop, store, internals, gates, asked } = this.#options;
    const since = performance.now();
    // Events behind a shut gate do not need the platform's limits now.
    const isOut = () => gates.shut.flatMap(({ lane }) => lanesOf(lane).map(beginningOf));
    while (!stop.signal.aborted && !gates.isAllShut && (await store.nextDue({ except: isOut() })) === 0) {
      const patience = internals.handlesEvents() ? PATIENCE : this.#eventsStay ? 0 : PATIENCE_WITH_OTHERS;
      if (performance.now() - since >= patience) {
        this.#eventsStay = true;
        return;
      }
      await pause(LOOK_AGAIN, stop.signal, asked);
    }
    this.#eventsStay = false;
  }

  /** Stops the pass if waiting does not help, because the token is missing or refused. */
  #outOfReach({ everything, limited }: Outage, name: string): void {
    const { stop, gates } = this.#options;
    if (everything && !limited)
      stop.stop("unreachable", gates.waitAt(performance.now(), this.#laneOfRead(name)));
  }

  /** Returns the lane of a record, or of another thing that a pass reads. */
  #laneOfRead(name: string): Lane & { readonly kind: LaneKind } {
    const isListing = splitKey(name).rest.startsWith("listing");
    return { account: this.#options.account, kind: isListing ? "listings" : "bookings" };
  }

  /** Waits until the gates let a read through, which may be their try. Resolves to `false` if the pass stops. */
  async #isReady(name: string): Promise<boolean> {
    const { account, stop, gates, asked } = this.#options;
    const lane = this.#laneOfRead(name);
    const longest = account === undefined ? LONGEST_WAIT : LONGEST_WAIT_OF_ACCOUNT;
    const since = performance.now();
    while (!stop.signal.aborted) {
      const now = performance.now();
      const wait = gates.waitAt(now, lane);
      if (this.#triesAtOnce || gates.lets(lane, now)) {
        this.#triesAtOnce = false;
        return true;
      }
      const failed = gates.failuresOf(lane) - this.#failuresBefore[lane.kind];
      if (failed >= ROUNDS || now - since + wait > longest) stop.stop("unreachable", wait);
      else await gates.whileWaiting(lane, () => pause(wait || LOOK_AGAIN, stop.signal, asked));
    }
    return false;
  }
}

/** Limits how many reads begin within any second. */
class RateLimit {
  readonly #most: number;
  /** In how many ms {@link #most} reads may begin. */
  readonly #window: number;
  /** When the last reads began, on the monotonic clock. */
  readonly #begun: number[] = [];

  /** @param rate - reads in a second */
  constructor(rate: number) {
    this.#most = Math.max(1, Math.floor(rate));
    this.#window = (this.#most / rate) * 1000;
  }

  /** Waits until a read may begin, or the signal aborts. */
  async next(signal: AbortSignal, keepAlive: boolean): Promise<void> {
    while (!signal.aborted) {
      const now = performance.now();
      while (this.#begun.length > 0 && this.#begun[0]! <= now - this.#window) this.#begun.shift();
      if (this.#begun.length < this.#most) {
        this.#begun.push(now);
        return;
      }
      await pause(Math.ceil(this.#begun[0]! + this.#window - now), signal, keepAlive);
    }
  }
}
