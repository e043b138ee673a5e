// Chooses which events come first while reads are limited.

import type { EventStore, StoredEvent } from "../stores/event-store.ts";
import { type Kind, kindOf } from "./work.ts";

// A claim takes what is due longest. It cannot choose by kind or by snapshot, so this file chooses events from lists, and
// the queue claims them by their ids.

/** How many events one list has. */
const PAGE = 100;
/** How long a list of the newest events is used, ms. */
const FRESH = 250;
/** How many records without a snapshot are remembered, so that each is looked up once. */
const REMEMBERED = 10_000;

/** Chooses waiting events. */
export class EventPicker<Tx> {
  readonly #store: EventStore<Tx>;
  /** The events that were not chosen yet, best first. */
  #genuine: string[] = [];
  #listedAt = Number.NEGATIVE_INFINITY;
  readonly #unknown = new Set<string>();
  /** Where the scan of older events goes on. */
  #after: string | undefined;

  constructor(store: EventStore<Tx>) {
    this.#store = store;
  }

  /** Returns due events of other kinds than these, and of no record. Each call looks at the newest and at some older ones. */
  async except(kinds: readonly Kind[], limit: number): Promise<string[]> {
    const now = Date.now();
    const older = await this.#store.list({ state: "pending", limit: PAGE, after: this.#after });
    this.#after = older.length < PAGE ? undefined : older.at(-1)?.eventId;
    const lists = [
      await this.#store.list({ state: "pending", limit: PAGE }),
      await this.#store.list({ state: "retrying", limit: PAGE }),
      await this.#store.list({ state: "scheduled", limit: PAGE }),
      older,
    ];
    const goesOn = ({ ref, dueAt }: StoredEvent): boolean =>
      (ref === null || !kinds.includes(kindOf(ref))) && dueAt !== null && dueAt.getTime() <= now;
    return firstOfEach(lists.flat().filter(goesOn)).slice(0, limit);
  }

  /**
   * Returns events that are rather genuine than forged: first those of records that have a snapshot, then the newest that
   * were never tried.
   */
  async genuine(limit: number): Promise<string[]> {
    const now = performance.now();
    if (now - this.#listedAt >= FRESH) {
      this.#listedAt = now;
      this.#genuine = await this.#list();
    }
    return this.#genuine.splice(0, limit);
  }

  async #list(): Promise<string[]> {
    const pending = await this.#store.list({ state: "pending", limit: PAGE });
    const retrying = await this.#store.list({ state: "retrying", limit: PAGE });
    const now = Date.now();
    // The platform has said nothing about these records yet: a rate limit or an outage came first.
    const unanswered = retrying.filter(
      ({ dueAt, reason }) => reason === "unavailable" && Number(dueAt) <= now,
    );
    const events = [...pending, ...unanswered];
    const isKnown = await Promise.all(events.map((event) => this.#hasSnapshot(event)));
    return firstOfEach([...events.filter((_, n) => isKnown[n]), ...events.filter((_, n) => !isKnown[n])]);
  }

  async #hasSnapshot({ ref }: StoredEvent): Promise<boolean> {
    if (ref === null || this.#unknown.has(ref)) return false;
    if ((await this.#store.snapshotOf(ref)) !== undefined) return true;
    if (this.#unknown.size >= REMEMBERED) this.#unknown.clear();
    this.#unknown.add(ref);
    return false;
  }
}

/** Returns the ids of the first event of each record, because a record has one lease. */
function firstOfEach(events: readonly StoredEvent[]): string[] {
  const refs = new Set<string>();
  return events.flatMap(({ eventId, ref }) => {
    const record = ref ?? eventId;
    if (refs.has(record)) return [];
    refs.add(record);
    return [eventId];
  });
}
