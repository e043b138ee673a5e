import { forEach } from "../async.ts";
import { InvalidArgumentError } from "../errors.ts";
import { WebhookNotification } from "../models/notification.ts";
import type { Booking } from "../models/records.ts";
import { bookingRef } from "../webhooks/events.ts";
import { fetchFailure } from "../webhooks/processing/failures.ts";
import { compare } from "../webhooks/processing/snapshot.ts";
import type { Changes } from "./changes.ts";
import type { Settings } from "./options.ts";

/** The bookings that the user has named by `watch`, until the store knows them. */
export class Watch {
  readonly #settings: Settings;
  readonly #changes: Changes;
  readonly #adding = new Set<Promise<unknown>>();
  /** Each pass reads these records until the store knows them. */
  readonly refs = new Set<string>();
  #changed = 0;

  constructor(settings: Settings, changes: Changes) {
    this.#settings = settings;
    this.#changes = changes;
  }

  async add(bookingCodes: string | readonly string[]): Promise<void> {
    const codes = checkCodes(bookingCodes);
    const adding = this.#addAll(codes);
    this.#adding.add(adding);
    try {
      await adding;
    } finally {
      this.#adding.delete(adding);
    }
  }

  /** Resolves when each call of {@link add} so far has ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#adding);
  }

  /** Returns how many events were added since the last call. */
  takeChanged(): number {
    const changed = this.#changed;
    this.#changed = 0;
    return changed;
  }

  async #addAll(codes: readonly string[]): Promise<void> {
    const errors: unknown[] = [];
    await forEach(codes, this.#settings.concurrency, (code) =>
      // If one booking fails, add the others all the same.
      this.#add(code).catch((error) => void errors.push(error)),
    );
    if (errors.length > 0) throw errors[0];
  }

  async #add(bookingCode: string): Promise<void> {
    const { client, store, internals, observe } = this.#settings;
    if (await store.recordOf(bookingRef(bookingCode))) return;
    let booking: Booking | undefined;
    try {
      booking = await client.bookings.get(bookingCode);
    } catch (error) {
      // In an outage, add the event all the same. It waits until the platform answers.
      if (!fetchFailure(error).outage) throw error;
    }
    // The code of the record may differ in case.
    const ref = bookingRef(booking?.bookingCode ?? bookingCode);
    const known = await store.recordOf(ref);
    if (known) return;
    this.refs.add(ref);
    const now = booking && internals.snapshotOf("booking", booking);
    const eventId = await this.#changes.add(ref, undefined, now?.snapshot);
    if (eventId === undefined) return;
    this.#changed += 1;
    const { changes } = now ? compare(undefined, now) : { changes: {} };
    observe({ kind: "changed", ref, eventId, previousStatus: undefined, status: booking?.status, changes });
  }
}

function checkCodes(given: string | readonly string[]): string[] {
  const codes: readonly unknown[] = Array.isArray(given) ? given : [given];
  const issues = codes
    .map((code, index) => ({ code, path: Array.isArray(given) ? ["bookingCode", index] : ["bookingCode"] }))
    .filter(
      ({ code }) =>
        typeof code !== "string" || !WebhookNotification.shape.bookingCode.safeParse(code).success,
    )
    .map(({ path }) => ({ path, message: "must be a booking's code" }));
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return [...new Set((codes as readonly string[]).map((code) => code.trim()))];
}
