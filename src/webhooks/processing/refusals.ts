// Remembers since when the platform refuses a known record. A scheduled event of the record holds the time, so that every
// process knows it, and reads the record when `giveUpAfter` has passed.

import type { EventStore, FurtherEvent } from "../../stores/event-store.ts";
import type { AddOptions } from "../../stores/store-options.ts";
import type { NewEvent } from "../../stores/stored-event.ts";
import { ownId } from "../own-ids.ts";

type Store = Pick<EventStore<unknown>, "get" | "snapshotOf">;

interface Refusal {
  /** How long the platform has refused the record, ms. */
  readonly lasted: number;
  /** The events to record, so that the time is remembered. */
  readonly events: readonly FurtherEvent[];
}

/** Knows since when the platform refuses known records, as with 403 or 422. */
export class Refusals {
  readonly #store: Store;
  readonly #add: (event: NewEvent, options?: AddOptions) => Promise<unknown>;
  readonly #giveUpAfter: number;

  /** @param giveUpAfter - how long a refusal must last, ms */
  constructor(
    store: Store,
    add: (event: NewEvent, options?: AddOptions) => Promise<unknown>,
    giveUpAfter: number,
  ) {
    this.#store = store;
    this.#add = add;
    this.#giveUpAfter = giveUpAfter;
  }

  /**
   * Notes that the reconciler's read of a record was refused. Call it for a known record that is not gone, if its read
   * ended with the reason `denied`. The handler then reads the record when `giveUpAfter` has passed since its first
   * refusal, and runs `booking.gone` or `listing.gone` if it is still refused while others of its account are found.
   *
   * @throws an error of the store
   */
  async note(ref: string): Promise<void> {
    const { events } = await this.noted(ref, Date.now());
    for (const { event, ...options } of events) await this.#add(event, options);
  }

  /** Returns how long a refused record is refused at `time`, epoch ms by the store's clock. */
  async noted(ref: string, time: number): Promise<Refusal> {
    if (!Number.isFinite(this.#giveUpAfter)) return { lasted: 0, events: [] };
    const eventId = ownId("refused", ref);
    const [first, known] = await Promise.all([this.#store.get(eventId), this.#store.snapshotOf(ref)]);
    // The user has erased the record meanwhile, so nothing of it may stay.
    if (!known) return { lasted: 0, events: [] };
    // If the record was found since, an earlier refusal has ended.
    if (first && first.receivedAt >= known.seenAt)
      return { lasted: time - first.receivedAt.getTime(), events: [] };
    const dueIn = this.#giveUpAfter;
    const timestamp = new Date(time + dueIn).toISOString();
    const event: NewEvent = { eventId, ref, source: "recheck", topic: null, timestamp, notification: "{}" };
    return { lasted: 0, events: [{ event, dueIn, replace: "moved" }] };
  }
}
