import { withTimeout } from "../async.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { AddAnswer } from "../stores/store-steps.ts";

/** How long a reading may be reused, ms. A reading that is far from the limit may be older. */
const FRESH = 1000;
/** How long a notification waits for a reading, ms. Body, `verify` and store share 10 s. */
const PATIENCE = 3000;

interface Counted {
  readonly counts: Record<EventState, number>;
  /** How many of the scheduled events are due. They wait, too. */
  readonly scheduledDue: number;
}

/** A reading that callers share. */
interface Reading {
  readonly counted: Promise<Counted>;
  /** Resolves when the store has answered, or has failed, or does not answer in time. */
  readonly over: Promise<void>;
}

/** How many events a store has, and how long the oldest of them waits. */
export interface CountsReading extends Counted {
  /** ms; `undefined` if no event waits. */
  readonly oldestWaitingAge: number | undefined;
}

/** Counts the events of a store, once for all who need it: the backlog limit, the gauges of telemetry, and health. */
export class StoreCounts {
  readonly #store: Pick<EventStore<never>, "counts" | "oldestWaiting" | "scheduledDue">;
  #last: (Counted & { readonly at: number }) | undefined;
  #reading: Reading | undefined;
  /** How many events this process has added since the last reading, those included that the store is adding now. */
  #added = 0;
  #adding = 0;

  constructor(store: Pick<EventStore<never>, "counts" | "oldestWaiting" | "scheduledDue">) {
    this.#store = store;
  }

  /** Resolves to counts that are at most `maxAge` ms old. Rejects with the error of the store. */
  async count(maxAge: number): Promise<Counted> {
    const isFresh = this.#last && performance.now() - this.#last.at < maxAge;
    return isFresh ? this.#last! : this.#renew().counted;
  }

  /** Resolves to a reading whose counts are fresh. Rejects with the error of the store. */
  async read(): Promise<CountsReading> {
    const [{ counts, scheduledDue }, oldestWaitingAge] = await Promise.all([
      this.count(FRESH),
      this.#store.oldestWaiting(),
    ]);
    return { counts, scheduledDue, oldestWaitingAge };
  }

  /**
   * Adds an event, unless more than `most` events wait, by the last reading and what this process has added since. Renews the
   * reading in the background. Waits for it only if there is none, or before an old one refuses a notification.
   *
   * @returns the answer of `add`, or `full`
   */
  addBelow(most: number, add: () => Promise<AddAnswer>): Promise<AddAnswer | "full"> {
    if (most === Number.POSITIVE_INFINITY) return add();
    const last = this.#last;
    const isOld = last === undefined || performance.now() - last.at >= FRESH;
    if (!isOld || (last !== undefined && !this.#isNear(most))) return this.#add(most, add);
    const { over } = this.#renew();
    if (last !== undefined && this.#waiting <= most) return this.#add(most, add);
    return over.then(() => this.#add(most, add));
  }

  /** Whether the limit may be near. Other processes may have added more, but they count, too. */
  #isNear(most: number): boolean {
    return this.#waiting > most / 2 || this.#added >= most / 1000;
  }

  async #add(most: number, add: () => Promise<AddAnswer>): Promise<AddAnswer | "full"> {
    if (this.#waiting > most) return "full";
    this.#added += 1;
    this.#adding += 1;
    let answer: AddAnswer | undefined;
    try {
      answer = await add();
      return answer;
    } finally {
      this.#adding -= 1;
      if (answer !== "added") this.#added -= 1;
    }
  }

  /** The events of the last reading, and those that this process has added since. It is 0 before the first reading. */
  get #waiting(): number {
    if (this.#last === undefined) return 0;
    const { counts, scheduledDue } = this.#last;
    return counts.pending + counts.processing + counts.retrying + scheduledDue + this.#added;
  }

  #renew(): Reading {
    if (this.#reading !== undefined) return this.#reading;
    // The reading may miss the events that the store is adding at this moment.
    const included = this.#added - this.#adding;
    const counted = this.#count().then((last) => {
      // A late answer must not replace that of a later call.
      if (this.#reading === reading) {
        this.#last = { ...last, at: performance.now() };
        this.#added -= included;
      }
      return last;
    });
    const over = withTimeout(PATIENCE, counted)
      .catch(() => {})
      .then(() => {
        this.#reading = undefined;
      });
    const reading: Reading = { counted, over };
    this.#reading = reading;
    return reading;
  }

  async #count(): Promise<Counted> {
    const counts = await this.#store.counts();
    const scheduledDue = counts.scheduled > 0 ? ((await this.#store.scheduledDue?.()) ?? 0) : 0;
    return { counts, scheduledDue };
  }
}
