import { forEach, untilAborted } from "../async.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { WebhookNotification } from "../models/notification.ts";
import type { Booking } from "../models/records.ts";
import { type ReadRecord, readBooking } from "../webhooks/processing/read-record.ts";
import { compare, fetchFailure } from "../webhooks/processing/record.ts";
import { bookingRef } from "../webhooks/refs.ts";
import { addChange } from "./missed-changes.ts";
import type { Settings } from "./options.ts";
import { Findings } from "./records.ts";

/** Compares the bookings that the user passes to `watch`, and forgets each when its event is in the store. */
export class Watch {
  readonly #settings: Settings;
  readonly #findings: Findings;
  readonly #adding = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#findings = new Findings(settings);
  }

  /** Whether no call of {@link add} is running, and no pass is left to report what they added. */
  get isIdle(): boolean {
    return this.#adding.size === 0 && this.#findings.changed === 0;
  }

  /** Makes each call of {@link add} that has not ended reject soon. */
  close(): void {
    const rest = "The reconciler was closed before it had added all bookings. Pass them to `watch` again.";
    this.#closing.abort(new StayhookError(rest));
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
    const { changed } = this.#findings;
    this.#findings.changed = 0;
    return changed;
  }

  async #addAll(codes: readonly string[]): Promise<void> {
    const errors: unknown[] = [];
    const { signal } = this.#closing;
    await forEach(codes, this.#settings.concurrency, async (code) => {
      signal.throwIfAborted();
      // If one booking fails, still add the other bookings.
      await this.#add(code).catch((error) => void errors.push(error));
    });
    signal.throwIfAborted();
    if (errors.length > 0) throw errors[0];
  }

  async #add(bookingCode: string): Promise<void> {
    const { account, client, store, internals } = this.#settings;
    const { signal } = this.#closing;
    const asked = bookingRef(bookingCode, account);
    const before = await store.snapshotOf(asked);
    let read: ReadRecord<Booking> | undefined;
    try {
      read = await readBooking(client.bookings, bookingCode, { signal });
    } catch (error) {
      // In an outage, add the event all the same: the event waits until the platform answers.
      if (!fetchFailure(error).outage) throw error;
    }
    // The platform's booking code may differ from the user's code in upper and lower case.
    const ref = read ? bookingRef(read.record.bookingCode, account) : asked;
    const known = ref === asked ? before : await store.snapshotOf(ref);
    const now = read && (await untilAborted(internals.lookAt("booking", read, account), signal));
    if (known && now) return void (await this.#findings.compare(ref, known, now, signal));
    const eventId = await addChange(this.#settings, ref, known, now?.snapshot, signal);
    if (eventId === undefined) return;
    const { changes } = now ? compare(undefined, now) : { changes: {} };
    const [previousStatus, status] = [known?.snapshot.status, read?.record.status];
    this.#findings.change({ kind: "changed", ref, eventId, previousStatus, status, changes });
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
