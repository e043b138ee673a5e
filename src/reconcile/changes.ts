import { v5 } from "uuid";
import { forEach } from "../async.ts";
import { InvalidArgumentError } from "../errors.ts";
import { WebhookNotification } from "../models/notification.ts";
import type { Booking } from "../models/records.ts";
import type { EventStore, RecordSnapshot, Snapshot } from "../stores/event-store.ts";
import { bookingRef } from "../webhooks/events.ts";
import type { Internals } from "../webhooks/internals.ts";
import { ownId } from "../webhooks/own-ids.ts";
import { canonicalJson, compare, fetchFailure } from "../webhooks/processing/record.ts";
import type { Settings } from "./options.ts";

/** The UUID namespace of the ids of the reconciler's events. */
const NAMESPACE = "5b0f6a6e-3c0d-4b7e-9d43-1f5a2c8e7b91";

/** Adds one event for each change. All machines compute the same id for a change, so the store ignores duplicates. */
export class Changes {
  readonly #store: EventStore<unknown>;
  readonly #internals: Pick<Internals, "add">;

  constructor(store: EventStore<unknown>, internals: Pick<Internals, "add">) {
    this.#store = store;
    this.#internals = internals;
  }

  /**
   * @param known - the record's snapshot in the store when the reconciler compared the record
   * @param to - the record as it is now; `undefined` if it could not be read
   * @returns the id of the added event; `undefined` if an earlier event of the change waits, was handled, was
   * discarded, or is parked after its callback failed
   */
  async add(
    ref: string,
    known: RecordSnapshot | undefined,
    to: Snapshot | undefined,
  ): Promise<string | undefined> {
    const sequence = known?.sequence ?? 0;
    for (let again = 0; ; ) {
      const eventId = changeId(ref, sequence, known?.snapshot, to, again);
      const timestamp = new Date().toISOString();
      const added = await this.#internals.add({
        eventId,
        ref,
        source: "reconcile",
        topic: null,
        timestamp,
        notification: null,
      });
      if (added === "added") return eventId;
      const event = await this.#store.get(eventId);
      // The store has just pruned the event, so its id is free.
      if (event === undefined) continue;
      const { state, reason } = event;
      const endedInVain =
        (state === "done" && reason !== "discarded") || (state === "parked" && reason !== "callback");
      if (!endedInVain) return undefined;
      // Read the snapshot after the event: the store saves the snapshot when it records that the event is done.
      const now = await this.#store.snapshotOf(ref);
      if ((now?.sequence ?? 0) !== sequence) return undefined;
      // The earlier event of this change found nothing new, or failed. The change needs an event with another id.
      again += 1;
    }
  }
}

function changeId(
  ref: string,
  sequence: number,
  from: Snapshot | undefined,
  to: Snapshot | undefined,
  again: number,
): string {
  const parts = [ref, sequence, from && canonicalJson(from), to && canonicalJson(to)];
  return ownId("reconcile", v5(JSON.stringify(again === 0 ? parts : [...parts, again]), NAMESPACE));
}

/** Adds events for the bookings that the user passes to `watch`. Remembers the bookings that have no snapshot yet. */
export class Watch {
  readonly #settings: Settings;
  readonly #changes: Changes;
  readonly #adding = new Set<Promise<unknown>>();
  /** The records that each pass reads until the store has their snapshots. */
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

  /** Returns how many events `watch` has added since the last call of `takeChanged`. */
  takeChanged(): number {
    const changed = this.#changed;
    this.#changed = 0;
    return changed;
  }

  async #addAll(codes: readonly string[]): Promise<void> {
    const errors: unknown[] = [];
    await forEach(codes, this.#settings.concurrency, (code) =>
      // If one booking fails, still add the other bookings.
      this.#add(code).catch((error) => void errors.push(error)),
    );
    if (errors.length > 0) throw errors[0];
  }

  async #add(bookingCode: string): Promise<void> {
    const { client, store, internals, observe } = this.#settings;
    if (await store.snapshotOf(bookingRef(bookingCode))) return;
    let booking: Booking | undefined;
    try {
      booking = await client.bookings.get(bookingCode);
    } catch (error) {
      // In an outage, add the event all the same: the event waits until the platform answers.
      if (!fetchFailure(error).outage) throw error;
    }
    // The platform's booking code may differ from the user's code in upper and lower case.
    const ref = bookingRef(booking?.bookingCode ?? bookingCode);
    const known = await store.snapshotOf(ref);
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
