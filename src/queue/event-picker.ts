// Chooses which events come first while reads are limited.

import { now } from "../clock.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { recordOf } from "./work.ts";

// A claim takes what is due longest. It cannot choose by snapshot, so this file chooses events from lists, and
// the queue claims them by their ids.

/** How many events one list has. */
const PAGE = 100;
/** How long a list of the newest events is used, ms. */
const FRESH = 250;
/** How many records without a snapshot are remembered, so that each is looked up once. */
const REMEMBERED = 10_000;

export class EventPicker<Tx> {
  readonly #store: EventStore<Tx>;
  /** The events of each record that has a snapshot. */
  readonly #known = new Map<string, Set<string>>();
  /** The newest events of other records that were not chosen yet, best first. */
  #newest: string[] = [];
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** The records that had no snapshot when this scan of the older events met them. */
  readonly #unknown = new Set<string>();
  /** Where the scan of older events goes on. */
  #next: { readonly state: "pending" | "retrying"; readonly after?: string | undefined } = {
    state: "pending",
  };

  constructor(store: EventStore<Tx>) {
    this.#store = store;
  }

  /**
   * Returns events that are rather genuine than forged: first those of records that have a snapshot, then the newest that
   * were never tried.
   */
  async genuine(limit: number): Promise<string[]> {
    const at = performance.now();
    if (at - this.#lookedAt >= FRESH) {
      this.#lookedAt = at;
      await this.#look();
    }
    const known = [...this.#known.keys()].slice(0, limit).map((record) => this.#nextOf(record));
    return [...known, ...this.#newest.splice(0, limit - known.length)];
  }

  /** Takes one event of a known record, whose turn comes again after all other records. */
  #nextOf(record: string): string {
    const events = this.#known.get(record)!;
    const [eventId] = events;
    events.delete(eventId!);
    this.#known.delete(record);
    if (events.size > 0) this.#known.set(record, events);
    return eventId!;
  }

  /** Looks at the newest events, and at a page of older ones. */
  async #look(): Promise<void> {
    const newest = [
      ...(await this.#store.list({ state: "pending", limit: PAGE })),
      ...(await this.#store.list({ state: "retrying", limit: PAGE })),
    ];
    const older = this.#known.size < PAGE ? await this.#older() : [];
    const time = now();
    // The platform has said nothing about these records yet: a rate limit or an outage came first.
    const isUnanswered = ({ state, reason, dueAt }: StoredEvent): boolean =>
      state === "pending" || (reason === "unavailable" && Number(dueAt) <= time);
    const others = firstOfEach(newest.filter(isUnanswered));
    const groups = [...Map.groupBy([...newest, ...older].filter(isUnanswered), recordOf)];
    const isKnown = await Promise.all(groups.map(([record]) => this.#hasSnapshot(record)));
    for (const [record, events] of groups.filter((_, n) => isKnown[n])) {
      const ids = events.map(({ eventId }) => eventId);
      this.#known.set(record, new Set([...(this.#known.get(record) ?? []), ...ids]));
      others.delete(record);
    }
    this.#newest = [...others.values()];
  }

  /** Returns the next page of the scan, which goes through all waiting events again and again. */
  async #older(): Promise<readonly StoredEvent[]> {
    const { state, after } = this.#next;
    const page = await this.#store.list({ state, limit: PAGE, after });
    if (page.length === PAGE) this.#next = { state, after: page.at(-1)!.eventId };
    else {
      this.#next = { state: state === "pending" ? "retrying" : "pending" };
      // Meanwhile, a record may have been read.
      this.#unknown.clear();
    }
    return page;
  }

  async #hasSnapshot(record: string): Promise<boolean> {
    if (this.#unknown.has(record)) return false;
    if ((await this.#store.snapshotOf(record)) !== undefined) return true;
    if (this.#unknown.size >= REMEMBERED) this.#unknown.clear();
    this.#unknown.add(record);
    return false;
  }
}

/** Returns the first event of each record, because a record has one lease. An event without a record is its own. */
function firstOfEach(events: readonly StoredEvent[]): Map<string, string> {
  const first = new Map<string, string>();
  for (const event of events) if (!first.has(recordOf(event))) first.set(recordOf(event), event.eventId);
  return first;
}
