import { InvalidArgumentError } from "../errors.ts";
import { WebhookNotification } from "../models/notification.ts";
import { fetchFailure } from "../webhooks/processing/failures.ts";
import { bookingRef } from "../webhooks/ref.ts";
import type { Changes } from "./changes.ts";
import type { Settings } from "./options.ts";

/** Bookings that were added by hand, until the store knows them. */
export class Watch {
  readonly #settings: Settings;
  readonly #changes: Changes;
  readonly #adding = new Set<Promise<unknown>>();
  /** Read by each pass until the store knows them. */
  readonly refs = new Set<string>();
  #changed = 0;

  constructor(settings: Settings, changes: Changes) {
    this.#settings = settings;
    this.#changes = changes;
  }

  async add(bookingCode: string): Promise<void> {
    const isText = typeof bookingCode === "string";
    if (!isText || !WebhookNotification.shape.bookingCode.safeParse(bookingCode).success)
      throw new InvalidArgumentError({ path: ["bookingCode"], message: "must be a booking's code" });
    const adding = this.#add(bookingCode);
    this.#adding.add(adding);
    try {
      await adding;
    } finally {
      this.#adding.delete(adding);
    }
  }

  /** Resolves when what was asked for until now has been added, or could not be. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#adding);
  }

  /** How many events were added since this was asked last. */
  takeChanged(): number {
    const changed = this.#changed;
    this.#changed = 0;
    return changed;
  }

  async #add(bookingCode: string): Promise<void> {
    const { client, store, observe } = this.#settings;
    const ref = bookingRef(bookingCode);
    const known = await store.statusOf(ref);
    if (known) return;
    const status = await client.bookings.get(bookingCode).then(
      (booking) => booking.status,
      (error) => {
        // An outage says nothing of the booking: the event waits for its end, as any does.
        if (!fetchFailure(error).outage) throw error;
        return "";
      },
    );
    this.refs.add(ref);
    const eventId = await this.#changes.add(ref, known, status);
    if (eventId === undefined) return;
    this.#changed += 1;
    observe({ kind: "changed", ref, eventId, previousStatus: undefined, status });
  }
}
