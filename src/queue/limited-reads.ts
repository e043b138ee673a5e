// Claims the events of a lane whose reads are limited: every second one of a record that was read before, the others in turn
// the newest event and the one that is due first.

import { now as clockNow } from "../clock.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import type { Claimant, Claims } from "./claims.ts";
import { isUnanswered, orderOf, type Turn } from "./flood.ts";
import { mayReadLimited } from "./plan.ts";
import type { QueueState } from "./state.ts";
import { answerOf } from "./store-call.ts";
import { type Lane, laneKey, type QueueOptions, recordOf } from "./work.ts";

/** The states of events that wait. */
const OPEN = ["pending", "retrying", "scheduled"] as const;
type OpenState = (typeof OPEN)[number];

/** How many events one list has. */
const PAGE = 100;
/** How long a list of the newest events is used, ms. */
const FRESH = 250;
/** How many records without a snapshot are remembered, so that each is looked up once. */
const REMEMBERED = 10_000;

interface ReadingQueue<Tx> {
  readonly store: Pick<EventStore<Tx>, "list" | "snapshotOf" | "nextDue">;
  readonly state: QueueState;
  readonly claims: Pick<Claims<Tx>, "fill">;
}

/** Begins the reads of limited lanes. */
export class LimitedReads<Tx> {
  readonly #queue: ReadingQueue<Tx>;
  readonly #lanes = new Map<string, LaneEvents>();

  constructor(queue: ReadingQueue<Tx>) {
    this.#queue = queue;
  }

  /** Notes an event that has just arrived here, so that it is the newest one at once. */
  arrived(lane: Lane, event: Pick<StoredEvent, "eventId" | "ref">): void {
    this.#lanes.get(laneKey(lane))?.arrived(event);
  }

  /** Begins the reads that may begin now. @returns ms until an event is due, if fewer events are due */
  async read(lane: Lane, claimant: Claimant | undefined): Promise<number | undefined> {
    const { state, store } = this.#queue;
    const { floods, beginningOf } = state;
    for (const [key, { lane: known }] of this.#lanes) if (!floods.isLimited(known)) this.#lanes.delete(key);
    for (let now = performance.now(); mayReadLimited(state, lane, now); now = performance.now()) {
      const turn = floods.take(lane, now)!;
      if (await this.#begin(lane, turn, claimant)) continue;
      floods.giveBack(lane);
      const only = [beginningOf(lane)];
      return (await answerOf("nextDue", async () => store.nextDue({ only }))) ?? Number.POSITIVE_INFINITY;
    }
    return undefined;
  }

  /** @returns whether an attempt has begun */
  async #begin(lane: Lane, turn: Turn, claimant: Claimant | undefined): Promise<boolean> {
    const key = laneKey(lane);
    const { store, state } = this.#queue;
    const events = this.#lanes.get(key) ?? new LaneEvents({ store, laneOf: state.laneOf }, lane);
    this.#lanes.set(key, events);
    const common = { isChosen: true, claimant } as const;
    const only = [state.beginningOf(lane)];
    for (const each of orderOf(turn)) {
      if (each !== "first") {
        const eventId = await events.next(each);
        if (
          eventId !== undefined &&
          (await this.#queue.claims.fill({ ...common, eventId })).started.length > 0
        )
          return true;
        continue;
      }
      // A drain holds the claims of events that it knows, so that the next claim gets others.
      // After its end it gives them back, and the next claim would get them again.
      for (let claimed = 1; claimed > 0; claimed = claimant && !claimant.isOver ? claimed : 0) {
        const filled = await this.#queue.claims.fill({ ...common, only });
        if (filled.started.length > 0) return true;
        claimed = filled.claimed;
      }
    }
    return false;
  }
}

interface LaneQueue {
  readonly store: Pick<EventStore<never>, "list" | "snapshotOf">;
  readonly laneOf: QueueOptions<never>["laneOf"];
}

/** The waiting events of a limited lane, as far as the store has listed them. A claim cannot choose by snapshot. */
class LaneEvents {
  readonly lane: Lane;
  readonly #queue: LaneQueue;
  /** The events of each record that has a snapshot. */
  readonly #known = new Map<string, Set<string>>();
  /** The newest events of other records that were not chosen yet, the newest first. */
  #newest: string[] = [];
  /** The events that have arrived here since the last turn, the oldest first. */
  #arrived: Pick<StoredEvent, "eventId" | "ref">[] = [];
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** The records that had no snapshot when this scan of the older events met them. */
  readonly #unknown = new Set<string>();
  /** Where the scan of older events goes on. */
  #next: { readonly state: OpenState; readonly after?: string | undefined } = { state: "pending" };

  constructor(queue: LaneQueue, lane: Lane) {
    this.#queue = queue;
    this.lane = lane;
  }

  arrived(event: Pick<StoredEvent, "eventId" | "ref">): void {
    if (this.#arrived.length >= PAGE) this.#arrived.shift();
    this.#arrived.push(event);
  }

  async next(turn: "known" | "newest"): Promise<string | undefined> {
    const at = performance.now();
    if (at - this.#lookedAt >= FRESH) {
      this.#lookedAt = at;
      this.#arrived = [];
      await this.#look();
    }
    for (const event of this.#arrived.splice(0)) {
      const record = recordOf(event);
      if (await this.#isKnown(record)) this.#addKnown(record, event.eventId);
      else this.#newest.unshift(event.eventId);
    }
    return turn === "known" ? this.#nextKnown() : this.#newest.shift();
  }

  #addKnown(record: string, eventId: string): void {
    const events = this.#known.get(record);
    if (events) events.add(eventId);
    else this.#known.set(record, new Set([eventId]));
  }

  async #isKnown(record: string): Promise<boolean> {
    return this.#known.has(record) || (await this.#hasSnapshot(record));
  }

  /** Takes one event of a known record, whose turn comes again after all other records. */
  #nextKnown(): string | undefined {
    const [first] = this.#known;
    if (first === undefined) return undefined;
    const [record, events] = first;
    const [eventId] = events;
    events.delete(eventId!);
    this.#known.delete(record);
    if (events.size > 0) this.#known.set(record, events);
    return eventId;
  }

  /** Looks at the newest events, and at a page of older ones. */
  async #look(): Promise<void> {
    const lists = await Promise.all(OPEN.map((state) => this.#list(state)));
    const older = this.#known.size < PAGE ? await this.#older() : [];
    const time = clockNow();
    const isDue = (event: StoredEvent): boolean =>
      Number(event.dueAt) <= time && laneKey(this.#queue.laneOf(event)) === laneKey(this.lane);
    const newest = new Map<string, string>();
    for (const event of [...lists.flat(), ...older].filter(isDue)) {
      const record = recordOf(event);
      if (await this.#isKnown(record)) this.#addKnown(record, event.eventId);
      // A record has one lease, so that one event of it is enough.
      else if (isUnanswered(event) && !newest.has(record)) newest.set(record, event.eventId);
    }
    this.#newest = [...newest.values()];
  }

  /** Returns the next page of the scan, which goes through all waiting events again and again. */
  async #older(): Promise<StoredEvent[]> {
    const { state, after } = this.#next;
    const page = await this.#list(state, after);
    if (page.length === PAGE) this.#next = { state, after: page.at(-1)!.eventId };
    else {
      this.#next = { state: OPEN[(OPEN.indexOf(state) + 1) % OPEN.length]! };
      // Meanwhile, a record may have been read.
      this.#unknown.clear();
    }
    return page;
  }

  #list(state: OpenState, after?: string): Promise<StoredEvent[]> {
    const { account } = this.lane;
    return answerOf("list", async () => this.#queue.store.list({ account, state, limit: PAGE, after }));
  }

  async #hasSnapshot(record: string): Promise<boolean> {
    if (this.#unknown.has(record)) return false;
    const known = await answerOf("snapshotOf", async () => this.#queue.store.snapshotOf(record));
    if (known !== undefined) return true;
    if (this.#unknown.size >= REMEMBERED) this.#unknown.clear();
    this.#unknown.add(record);
    return false;
  }
}
