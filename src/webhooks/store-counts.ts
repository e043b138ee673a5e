import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";

/** How long a reading may be reused, ms. */
const FRESH = 1000;
/** The age at which a reading is renewed in the background, ms. Requests need not wait for the new reading. */
const RENEW = 500;

interface Counted {
  readonly counts: Record<EventState, number>;
  /** How many of the scheduled events are due. They wait, too. */
  readonly scheduledDue: number;
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
  #reading: Promise<Counted> | undefined;

  constructor(store: Pick<EventStore<never>, "counts" | "oldestWaiting" | "scheduledDue">) {
    this.#store = store;
  }

  /** Resolves to a reading whose counts are at most `maxAge` ms old. Rejects with the error of the store. */
  async read(maxAge: number = FRESH): Promise<CountsReading> {
    const isFresh = this.#last && performance.now() - this.#last.at < maxAge;
    const [{ counts, scheduledDue }, oldestWaitingAge] = await Promise.all([
      isFresh ? this.#last! : this.#renew(),
      this.#store.oldestWaiting(),
    ]);
    return { counts, scheduledDue, oldestWaitingAge };
  }

  /** Whether more than `most` events wait or are being handled. Returns a promise only if there is no fresh reading. */
  isAbove(most: number): boolean | Promise<boolean> {
    if (most === Number.POSITIVE_INFINITY) return false;
    const age = this.#last ? performance.now() - this.#last.at : Number.POSITIVE_INFINITY;
    // A request that cannot be compared gets through: the following `add` reports what is wrong with the store.
    const renewed = age > RENEW ? this.#renew().then(sum, () => 0) : undefined;
    return age <= FRESH ? sum(this.#last!) > most : renewed!.then((waiting) => waiting > most);
  }

  #renew(): Promise<Counted> {
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readNow(): Promise<Counted> {
    const at = performance.now();
    const counts = await this.#store.counts();
    const scheduledDue = counts.scheduled > 0 ? ((await this.#store.scheduledDue?.()) ?? 0) : 0;
    this.#last = { at, counts, scheduledDue };
    return this.#last;
  }
}

function sum({ counts: { pending, processing, retrying }, scheduledDue }: Counted): number {
  return pending + processing + retrying + scheduledDue;
}
