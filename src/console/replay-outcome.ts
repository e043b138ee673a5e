// What came of a replay: which of its events are done, which failed again, and which still wait.

import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { lastAttempt, readEvents } from "./event-pages.ts";

type Store = Pick<EventStore<unknown>, "get">;

/** An outcome is told of at most this many events. */
export const MOST_FOLLOWED = 10_000;
/** How long nothing may happen, ms, until it is said that no process has claimed anything. */
const SILENCE = 3 * 60_000;

/** How many events of a replay have ended in each way. */
export interface Counted {
  readonly done: number;
  /** Events whose first attempt since the replay failed. They may be tried again. */
  readonly failed: number;
  readonly waiting: number;
  /** Whether events wait, and none has been claimed for 3 minutes. */
  readonly isSilent: boolean;
}

/** Follows the events of one replay. */
export class ReplayOutcome {
  readonly #store: Store;
  /** The events that still wait, by their ids, as they were before the replay. */
  readonly #waiting: Map<string, StoredEvent>;
  #done = 0;
  #failed = 0;
  #movedAt = performance.now();

  /** @param events - the events as they were before the replay */
  constructor(store: Store, events: readonly StoredEvent[]) {
    this.#store = store;
    this.#waiting = new Map(events.map((event) => [event.eventId, event]));
  }

  /** Reads the events that still wait. */
  async look(): Promise<Counted> {
    const events = await readEvents(this.#store, [...this.#waiting.keys()]);
    const found = new Map(events.map((event) => [event.eventId, event]));
    for (const before of this.#waiting.values()) this.#note(before, found.get(before.eventId));
    const isSilent = this.#waiting.size > 0 && performance.now() - this.#movedAt >= SILENCE;
    return { done: this.#done, failed: this.#failed, waiting: this.#waiting.size, isSilent };
  }

  #note(before: StoredEvent, event: StoredEvent | undefined): void {
    if (event?.state === "processing") this.#movedAt = performance.now();
    // An event that was deleted meanwhile was done before.
    const isDone = event === undefined || event.state === "done";
    if (!isDone && !(isFailed(event) && lastAttempt(event) > lastAttempt(before))) return;
    this.#movedAt = performance.now();
    this.#waiting.delete(before.eventId);
    if (isDone) this.#done += 1;
    else this.#failed += 1;
  }
}

const isFailed = ({ state }: StoredEvent): boolean => state === "parked" || state === "retrying";
