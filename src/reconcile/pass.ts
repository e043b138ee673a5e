import type { Listing } from "../models/listing.ts";
import { isOwnRef } from "../stores/own.ts";
import type { EventState, RecordStatus } from "../stores/event-store.ts";
import { noteIn } from "../webhooks/processing/note.ts";
import { listingRef, parseRef } from "../webhooks/ref.ts";
import type { Changes } from "./changes.ts";
import type { Ending } from "./ending.ts";
import type { Progress } from "./lock.ts";
import type { Notes } from "./notes.ts";
import type { Settings } from "./options.ts";
import { isOver, type Over } from "./over.ts";
import { Place } from "./place.ts";
import { Pool } from "./pool.ts";
import type { Read, Reader } from "./reader.ts";

/** How many waiting events are listed at once. */
const PAGE = 200;
const WAITING: readonly EventState[] = ["pending", "processing", "retrying", "parked"];

export interface PassOptions extends Settings {
  readonly ending: Ending;
  readonly reader: Reader;
  readonly notes: Notes;
  readonly changes: Changes;
  readonly over: Over;
  /** Where the pass before this one was cut off, and what it has left behind. */
  readonly begun: Pick<Progress, "after" | "learned">;
  /** `ref`s of bookings that are to be read though the store may not know them yet; taken out once it does. */
  readonly watched: Set<string>;
}

/** Once through all listings and all bookings that can still change. */
export class Pass {
  readonly #options: PassOptions;
  readonly #place: Place;
  readonly #listed = new Set<string>();
  /** What is to be called for those that could not be reached, once somebody else is: it was them, then. */
  readonly #unreached: (() => void)[] = [];
  #listingsSeen = false;
  #complete = false;
  checked = 0;
  changed = 0;
  failed = 0;

  constructor(options: PassOptions) {
    this.#options = options;
    this.#place = new Place(options.begun.after);
  }

  get progress(): Progress {
    const complete = this.#complete;
    return {
      complete,
      after: complete ? null : this.#place.after,
      learned: this.#options.begun.learned || this.#listingsSeen,
    };
  }

  /** @throws what the store throws */
  async run(): Promise<void> {
    const { ending, reader } = this.#options;
    await this.#checkListings();
    if (ending.why === undefined) await this.#checkBookings();
    // With little to ask for, it may not have been asked often enough to say so.
    if (!reader.answered) ending.ask("unreachable");
    this.#complete = ending.why === undefined;
  }

  async #checkListings(): Promise<void> {
    const { client, reader, ending, begun, baseline, concurrency } = this.#options;
    const read = await reader.read((options) => client.listings.list(options));
    if (read === undefined || "error" in read) return this.#failedToRead("listings", read);
    const learns = baseline && !begun.learned;
    // Asked after the list: what waits is handled anyway, and must not find its status learned.
    const waiting = learns ? await this.#waitingRefs() : undefined;
    const pool = new Pool(concurrency);
    for (const listing of read.value) {
      if (ending.why !== undefined) break;
      await pool.run(() => this.#checkListing(listing, waiting));
    }
    await pool.idle();
    this.#listingsSeen = ending.why === undefined;
  }

  /** @param waiting - where what was never handled is only learned: what waits to be */
  async #checkListing({ listingId, status }: Listing, waiting: ReadonlySet<string> | undefined) {
    const { store, notes, observe } = this.#options;
    const ref = listingRef(listingId);
    this.#listed.add(ref);
    const known = await store.statusOf(ref);
    if (known || !waiting) return this.#compare(ref, known, status);
    this.checked += 1;
    observe({ kind: "checked", ref, status });
    if (waiting.has(ref)) return;
    await notes.write(ref, undefined, status);
    observe({ kind: "learned", ref, status });
  }

  /** The records that have an event which is not done. */
  async #waitingRefs(): Promise<ReadonlySet<string>> {
    const refs = new Set<string>();
    for (const state of WAITING) {
      for (let after: string | undefined; ; ) {
        const page = await this.#options.store.list({ state, limit: PAGE, after });
        for (const event of page) if (event.ref !== null && !noteIn(event)) refs.add(event.ref);
        if (page.length < PAGE) break;
        after = page.at(-1)!.eventId;
      }
    }
    return refs;
  }

  async #checkBookings(): Promise<void> {
    const { store, ending, concurrency, begun, watched } = this.#options;
    const pool = new Pool(concurrency);
    for (const ref of watched) if (await store.statusOf(ref)) watched.delete(ref);
    const unseen = new Set(watched);
    for await (const known of store.statuses({ after: begun.after ?? undefined })) {
      if (ending.why !== undefined) break;
      const { ref } = known;
      const done = this.#place.begin(ref);
      unseen.delete(ref);
      if (ref.startsWith("booking:")) await pool.run(() => this.#checkKnown(known, done));
      else {
        this.#missInList(known);
        done();
      }
    }
    for (const ref of unseen)
      if (ending.why === undefined) await pool.run(() => this.#checkBooking(ref, () => {}));
    await pool.idle();
  }

  #missInList({ ref, status: previousStatus }: RecordStatus): void {
    if (isOwnRef(ref) || !this.#listingsSeen || this.#listed.has(ref)) return;
    if (ref.startsWith("listing:")) this.#options.observe({ kind: "vanished", ref, previousStatus });
  }

  async #checkKnown({ ref, status }: RecordStatus, done: () => void): Promise<void> {
    const canChange = status !== "Declined" && !(await this.#options.over.has(ref));
    if (canChange) await this.#checkBooking(ref, done);
    else done();
  }

  /** @param done - called when there is nothing more to be done about it in this pass */
  async #checkBooking(ref: string, done: () => void): Promise<void> {
    const { client, store, over, reader } = this.#options;
    const subject = parseRef(ref);
    if (subject?.kind !== "booking") return done();
    const read = await reader.read((options) => client.bookings.get(subject.bookingCode, options));
    if (read === undefined) return;
    if ("error" in read) {
      this.#failedToRead(ref, read);
      // Until somebody answers, it may have been the end of the pass: the next one then begins with this one.
      if (!read.answered) return void this.#unreached.push(done);
    } else {
      await this.#compare(ref, await store.statusOf(ref), read.value.status);
      if (isOver(read.value, Date.now())) await over.add(ref);
    }
    done();
    for (const unreached of this.#unreached.splice(0)) unreached();
  }

  async #compare(ref: string, known: RecordStatus | undefined, status: string): Promise<void> {
    const { changes, observe } = this.#options;
    this.checked += 1;
    observe({ kind: "checked", ref, status });
    if (known?.status === status) return this.#keepFromAge(known);
    const eventId = await changes.add(ref, known, status);
    if (eventId === undefined) return;
    this.changed += 1;
    observe({ kind: "changed", ref, eventId, previousStatus: known?.status, status });
  }

  /** What has not changed for very long would be forgotten, and then be taken for new. */
  async #keepFromAge(known: RecordStatus): Promise<void> {
    const { notes, inside } = this.#options;
    const age = Date.now() - known.seenAt.getTime();
    if (age > inside.recordRetention / 2) await notes.renew(known);
  }

  #failedToRead(ref: string, read: Exclude<Read<never>, { readonly value: never }>): void {
    if (read === undefined) return;
    this.failed += 1;
    this.#options.observe({ kind: "failed", ref, error: read.error });
  }
}
