// What came of a replay: which of its events are done, which failed again, and which still wait.

import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";

type Store = Pick<EventStore<unknown>, "get">;

/** An outcome is told of at most this many events. */
export const MOST_FOLLOWED = 10_000;
/** How many events are read at once. */
const AT_ONCE = 20;
/** How long nothing may happen, ms, until it is said that no process has claimed anything. */
export const SILENCE = 3 * 60_000;

/** How many events of a replay have ended in each way. */
export interface Counted {
  readonly done: number;
  /** Events whose first attempt since the replay failed. They may be tried again. */
  readonly failed: number;
  readonly waiting: number;
}

const lastAttempt = ({ history }: Pick<StoredEvent, "history">): number => history.at(-1)?.at.getTime() ?? 0;

/** Follows the events of one replay. */
export class ReplayOutcome {
  readonly #store: Store;
  /** The time of the last attempt before the replay, by the id of each event that still waits. */
  readonly #waiting: Map<string, number>;
  #done = 0;
  #failed = 0;
  #movedAt = performance.now();

  /** @param events - the events as they were before the replay */
  constructor(store: Store, events: readonly StoredEvent[]) {
    this.#store = store;
    this.#waiting = new Map(events.map((event) => [event.eventId, lastAttempt(event)]));
  }

  /** Reads the events that still wait. */
  async look(): Promise<Counted> {
    const ids = [...this.#waiting.keys()];
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      const some = ids.slice(at, at + AT_ONCE);
      const events = await Promise.all(some.map((eventId) => this.#store.get(eventId)));
      for (const [index, event] of events.entries()) this.#note(some[index]!, event);
    }
    return this.counted;
  }

  get counted(): Counted {
    return { done: this.#done, failed: this.#failed, waiting: this.#waiting.size };
  }

  /** How long no event of the replay has been claimed, ms. */
  get silentFor(): number {
    return performance.now() - this.#movedAt;
  }

  #note(eventId: string, event: StoredEvent | undefined): void {
    const before = this.#waiting.get(eventId) ?? 0;
    if (event?.state === "processing") this.#movedAt = performance.now();
    // An event that was deleted meanwhile was done before.
    const isDone = event === undefined || event.state === "done";
    const hasFailed = event !== undefined && failedSince(event, before);
    if (!isDone && !hasFailed) return;
    this.#movedAt = performance.now();
    this.#waiting.delete(eventId);
    if (isDone) this.#done += 1;
    else this.#failed += 1;
  }
}

function failedSince(event: StoredEvent, before: number): boolean {
  const { state } = event;
  return (state === "parked" || state === "retrying") && lastAttempt(event) > before;
}
