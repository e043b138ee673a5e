import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";

/** How long a reading may be reused, ms. */
const FRESH = 1000;
/** The age at which a reading is renewed in the background, ms. Requests need not wait for the new reading. */
const RENEW = 500;

/** How many events a store has, and how long the oldest of them waits. */
export interface CountsReading {
  readonly counts: Record<EventState, number>;
  /** How many of the scheduled events are due. They wait, too. */
  readonly scheduledDue: number;
  /** ms; `undefined` if no event waits. */
  readonly oldestWaitingAge: number | undefined;
}

type Counted = Pick<EventStore<never>, "counts" | "oldestWaiting" | "scheduledDue">;

/** Reads the counts of a store, once for all who need them: the backlog limit, the gauges of telemetry, and health. */
export class StoreCounts {
  readonly #store: Counted;
  #last: (CountsReading & { readonly at: number }) | undefined;
  #reading: Promise<CountsReading> | undefined;

  constructor(store: Counted) {
    this.#store = store;
  }

  /** Resolves to a reading that is at most `maxAge` ms old. Rejects with the error of the store. */
  async read(maxAge: number = FRESH): Promise<CountsReading> {
    if (this.#last && performance.now() - this.#last.at < maxAge) return this.#last;
    return this.#renew();
  }

  /** Whether more than `most` events wait or are being handled. Returns a promise only if there is no fresh reading. */
  isAbove(most: number): boolean | Promise<boolean> {
    if (most === Number.POSITIVE_INFINITY) return false;
    const age = this.#last ? performance.now() - this.#last.at : Number.POSITIVE_INFINITY;
    // A request that cannot be compared gets through: the following `add` reports what is wrong with the store.
    const renewed = age > RENEW ? this.#renew().then(sum, () => 0) : undefined;
    return age <= FRESH ? sum(this.#last!) > most : renewed!.then((waiting) => waiting > most);
  }

  #renew(): Promise<CountsReading> {
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readNow(): Promise<CountsReading> {
    const at = performance.now();
    const [counts, oldestWaitingAge] = await Promise.all([this.#store.counts(), this.#store.oldestWaiting()]);
    const scheduledDue = counts.scheduled > 0 ? ((await this.#store.scheduledDue?.()) ?? 0) : 0;
    this.#last = { at, counts, scheduledDue, oldestWaitingAge };
    return this.#last;
  }
}

function sum({ counts: { pending, processing, retrying }, scheduledDue }: CountsReading): number {
  return pending + processing + retrying + scheduledDue;
}
