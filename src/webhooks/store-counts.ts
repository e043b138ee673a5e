import { idleTimer } from "../async.ts";
import type { Log } from "../logger.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { AddAnswer } from "../stores/store-steps.ts";

/** How long a reading may be reused, ms. A reading that is far from the limit may be older. */
const FRESH = 1000;
/** The age at which a reading is renewed in the background, ms. Requests need not wait for the new reading. */
const RENEW = 500;
/**
 * How long notifications wait for a reading, ms. Then they get through, and the next one asks the store again. Body,
 * `verify` and store share 10 s, and an `add` takes 6 s to notice a dead connection.
 */
const PATIENCE = 3000;

interface Counted {
  readonly counts: Record<EventState, number>;
  /** How many of the scheduled events are due. They wait, too. */
  readonly scheduledDue: number;
}

/** A count that calls share. */
interface SharedCount {
  readonly counted: Promise<Counted>;
  /** Whether the store has answered. It is `false` if the store fails, or does not answer in time. */
  readonly isCounted: Promise<boolean>;
}

/** How many events a store has, and how long the oldest of them waits. */
export interface CountsReading extends Counted {
  /** ms; `undefined` if no event waits. */
  readonly oldestWaitingAge: number | undefined;
}

/** Counts the events of a store, once for all who need it: the backlog limit, the gauges of telemetry, and health. */
export class StoreCounts {
  readonly #store: Pick<EventStore<never>, "counts" | "oldestWaiting" | "scheduledDue">;
  #last: (Counted & { readonly at: number; readonly added: number }) | undefined;
  #reading: SharedCount | undefined;
  /** How many events this process has added, those included that the store is adding now. */
  #added = 0;
  #adding = 0;
  readonly #log: Pick<Log, "limited"> | undefined;

  constructor(
    store: Pick<EventStore<never>, "counts" | "oldestWaiting" | "scheduledDue">,
    log?: Pick<Log, "limited">,
  ) {
    this.#store = store;
    this.#log = log;
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
   * Adds an event, unless more than `most` events wait or are being handled. Counts the events that were added since the
   * last reading, because a burst of notifications is faster than the store can count.
   *
   * @returns the answer of `add`, or `full`
   */
  addBelow(most: number, add: () => Promise<AddAnswer>): Promise<AddAnswer | "full"> {
    const hasRoom = this.#hasRoom(most);
    if (hasRoom === true) return this.#counted(add());
    if (hasRoom === false) return Promise.resolve("full");
    // Add in the same turn: the next notification that waits for this reading must find this event counted.
    return hasRoom.then((isCounted) => (isCounted && this.#waiting > most ? "full" : this.#counted(add())));
  }

  /** The events of the last reading, and those that this process has added since. */
  get #waiting(): number {
    return this.#last === undefined ? 0 : sum(this.#last) + this.#added - this.#last.added;
  }

  /** Returns a promise if a reading is needed. It resolves to `false` if the store cannot count. */
  #hasRoom(most: number): boolean | Promise<boolean> {
    if (most === Number.POSITIVE_INFINITY) return true;
    if (this.#isFarFrom(most)) return true;
    const last = this.#last;
    const age = last ? performance.now() - last.at : Number.POSITIVE_INFINITY;
    // Renew the reading in the background, so that most notifications need not wait for it.
    if (age > RENEW) this.#renew();
    if (last !== undefined && age <= FRESH) {
      if (sum(last) > most) return false;
      if (this.#waiting <= most) return true;
    }
    // The events that were added since the reading may be handled by now.
    return this.#renew().isCounted;
  }

  /**
   * Whether fewer than half of `most` events waited at the last reading, and this process has added few since. Other
   * processes may have added more, but they count, too: each may exceed the limit by a thousandth.
   */
  #isFarFrom(most: number): boolean {
    return (
      this.#last !== undefined &&
      this.#waiting < most / 2 &&
      this.#added - this.#last.added < Math.floor(most / 1000)
    );
  }

  #counted(adding: Promise<AddAnswer>): Promise<AddAnswer> {
    this.#added += 1;
    this.#adding += 1;
    const end = (answer?: AddAnswer): void => {
      this.#adding -= 1;
      if (answer !== "added") this.#added -= 1;
    };
    adding.then(end, () => end());
    return adding;
  }

  #renew(): SharedCount {
    if (this.#reading !== undefined) return this.#reading;
    const counted = this.#readNow();
    const isCounted = new Promise<boolean>((resolve) => {
      const end = (answered: boolean): void => {
        clearTimeout(timer);
        if (this.#reading === reading) this.#reading = undefined;
        resolve(answered);
      };
      const timer = idleTimer(() => {
        this.#log?.limited(
          "counts",
          "warn",
          `the store did not answer counts() within ${PATIENCE} ms, so notifications are not compared with maxBacklog. Asking again`,
        );
        end(false);
      }, PATIENCE);
      counted.then(
        () => end(true),
        () => end(false),
      );
    });
    const reading = { counted, isCounted };
    this.#reading = reading;
    return reading;
  }

  async #readNow(): Promise<Counted> {
    const at = performance.now();
    // The reading may miss the events that the store is adding at this moment.
    const added = this.#added - this.#adding;
    const counts = await this.#store.counts();
    const scheduledDue = counts.scheduled > 0 ? ((await this.#store.scheduledDue?.()) ?? 0) : 0;
    const last = { at, added, counts, scheduledDue };
    // A late answer must not replace that of a later call.
    if (this.#last === undefined || this.#last.at < at) this.#last = last;
    return last;
  }
}

function sum({ counts: { pending, processing, retrying }, scheduledDue }: Counted): number {
  return pending + processing + retrying + scheduledDue;
}
