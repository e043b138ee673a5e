// Follows a store: yields the events that arrive, and the events whose state changes.

import { setTimeout as sleep } from "node:timers/promises";
import { lastAttempt, readEvents } from "../console/event-pages.ts";
import { errorText } from "../error-text.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import type { Invocation } from "./command.ts";

type Store = EventStore<unknown>;

/** The time between two reads of the store, ms. */
const POLL_INTERVAL = 500;
/** The number of newest events that each read gets. One event is not enough: a late commit may add an older event. */
const WATCHED = 200;
/** The largest number of events of one state that each read gets. */
const MOST_OPEN = 10_000;
/** The largest number of events to remember. A command that runs for weeks would otherwise fill its memory. */
const REMEMBERED = 100_000;
/** The states that an event leaves. */
const openStates: readonly EventState[] = ["scheduled", "pending", "processing", "retrying", "parked"];

/** A state of an event. */
export interface Followed {
  readonly event: StoredEvent;
  /** Whether the event has arrived since the last read. */
  readonly isNew: boolean;
}

/** Which events {@link followEvents} yields. */
export interface FollowOptions {
  /** Yields events from this time on. Default: only events that arrive after the call. */
  readonly since?: Date | undefined;
  /** Whether to watch the states of all events. Default: only those of the 200 newest. */
  readonly watchesAll?: boolean | undefined;
}

/**
 * Yields each new event, the oldest first, and an event again when its state changes or when an attempt ends. Throws if the
 * first read of the store fails. If a later read fails, warns and tries again. Returns when the signal aborts.
 */
export async function* followEvents(
  store: Store,
  { out, io: { signal } }: Invocation,
  filter: Pick<EventFilter, "account" | "ref" | "source">,
  { since, watchesAll = false }: FollowOptions,
): AsyncGenerator<Followed> {
  const watch = await Watch.from(store, filter, since, signal);
  const look = async () => [...(watchesAll ? await watch.changed() : []), ...(await watch.arrived())];
  const before = await look();
  if (since) yield* before.filter(({ isNew, isStep }) => isNew && !isStep);
  let failing = false;
  let took = 0;
  for (;;) {
    // Ask a slow store less often.
    await sleep(Math.max(POLL_INTERVAL, 10 * took), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      const began = performance.now();
      const found = await look();
      took = performance.now() - began;
      yield* found;
      failing = false;
    } catch (error) {
      if (!failing) out.warn(`The store could not be read: ${errorText(error)}. Trying again.`);
      failing = true;
    }
  }
}

/** `isStep` is true if the event has gone on since. */
type Found = Followed & { readonly isStep?: true };

/** Remembers the states of events, and finds those that differ. */
class Watch {
  readonly #store: Store;
  readonly #filter: EventFilter;
  readonly #receivedAfter: Date | undefined;
  readonly #signal: AbortSignal;
  readonly #seen = new Map<string, StoredEvent>();
  /** The ids of the events that were in one of the open states at the last read. */
  #open = new Set<string>();

  private constructor(
    store: Store,
    filter: EventFilter,
    receivedAfter: Date | undefined,
    signal: AbortSignal,
  ) {
    this.#store = store;
    this.#filter = filter;
    this.#receivedAfter = receivedAfter;
    this.#signal = signal;
  }

  static async from(store: Store, filter: EventFilter, since: Date | undefined, signal: AbortSignal) {
    const [newest] = since ? [] : await store.list({ ...filter, limit: 1 });
    return new Watch(store, filter, since ?? newest?.receivedAt, signal);
  }

  /** Finds the events that have arrived, and changes of the newest events. */
  async arrived(): Promise<Found[]> {
    const found: StoredEvent[] = [];
    let after: string | undefined;
    do {
      const page = await this.#store.list({
        ...this.#filter,
        receivedAfter: this.#receivedAfter,
        after,
        limit: WATCHED,
      });
      found.push(...page);
      const hasNew = page.some(({ eventId }) => !this.#seen.has(eventId));
      after = page.length === WATCHED && hasNew ? page.at(-1)?.eventId : undefined;
    } while (after !== undefined && !this.#signal.aborted);
    return this.#notice(found.reverse(), true);
  }

  /** Finds changes of events that wait, are being processed or are parked, and of those that were at the last read. */
  async changed(): Promise<Found[]> {
    const found: StoredEvent[] = [];
    const open = new Set<string>();
    for (const state of openStates) {
      let count = 0;
      for await (const event of eachEvent(this.#store, { ...this.#filter, state })) {
        found.push(event);
        open.add(event.eventId);
        count += 1;
        if (count >= MOST_OPEN || this.#signal.aborted) break;
      }
    }
    const left = [...this.#open].filter((eventId) => !open.has(eventId));
    found.push(...(await readEvents(this.#store, left, this.#signal)));
    this.#open = open;
    // An event that has arrived since the last read is left to `arrived`, which knows that the event is new.
    const isKnown = ({ eventId, receivedAt }: StoredEvent) =>
      this.#seen.has(eventId) || receivedAt.getTime() < (this.#receivedAfter?.getTime() ?? 0);
    return this.#notice(found.filter(isKnown), false);
  }

  /** Returns the events that differ from what is known, each after the ends of attempts that no read has seen. */
  #notice(events: readonly StoredEvent[], mayBeNew: boolean): Found[] {
    const found = events.flatMap((event): Found[] => {
      const before = this.#seen.get(event.eventId);
      if (before && isSame(before, event)) return [];
      const isNew = mayBeNew && before === undefined;
      this.#seen.set(event.eventId, event);
      const steps = before || isNew ? stepsBetween(before, event) : [];
      return [...steps.map((step): Found => ({ event: step, isNew: false, isStep: true })), { event, isNew }];
    });
    for (const eventId of this.#seen.keys()) {
      if (this.#seen.size <= REMEMBERED) break;
      this.#seen.delete(eventId);
    }
    return found;
  }
}

function isSame(one: StoredEvent, other: StoredEvent): boolean {
  return (
    one.state === other.state &&
    one.attempts === other.attempts &&
    one.reason === other.reason &&
    lastAttempt(one) === lastAttempt(other)
  );
}

/** The event as it was after each attempt that has ended since `before`, but for its present state. */
function stepsBetween(before: StoredEvent | undefined, event: StoredEvent): StoredEvent[] {
  const since = before ? lastAttempt(before) : 0;
  return event.history.flatMap(({ at, outcome, reason = null }, index) => {
    const isPresent = index === event.history.length - 1 && outcome === event.state;
    if (at.getTime() <= since || outcome === "lost" || isPresent) return [];
    return [{ ...event, state: outcome, reason, dueAt: null, history: event.history.slice(0, index + 1) }];
  });
}
