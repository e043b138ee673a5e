import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "../errors.ts";
import type { EventState } from "../stores/event-states.ts";
import { eventOrigins, eventReasons, eventStates } from "../stores/event-states.ts";
import type { EventFilter, EventStore, StoredEvent } from "../stores/event-store.ts";
import { eventTypes } from "../webhooks/events.ts";
import type { Invocation, Options } from "./command.ts";
import { MissingError, UsageError } from "./exit-code.ts";
import { choiceOf, timeOf } from "./options.ts";
import type { Column } from "./output.ts";

/** The columns of a list of events. */
export const eventColumns: readonly Column<StoredEvent>[] = [
  ["EVENT", ({ eventId }) => eventId],
  ["STATE", ({ state }) => state],
  ["TYPE", ({ type }) => type],
  ["RECORD", ({ ref }) => ref],
  ["ATTEMPTS", ({ attempts }) => attempts],
  ["RECEIVED", ({ receivedAt }) => receivedAt],
  ["REASON", ({ reason }) => reason],
  ["ERROR", ({ lastError }) => lastError],
];

/** The options of a filter of events. */
export function filterOptions(takenStates: readonly EventState[] = eventStates): Options {
  return {
    ref: { type: "string", value: "<ref>", help: "the record: booking:<code> or listing:<id>" },
    type: { type: "string", value: "<type>", help: "the event's type, such as booking.Confirmed" },
    reason: { type: "string", value: "<reason>", help: eventReasons.join(", ") },
    state: { type: "string", value: "<state>", help: takenStates.join(", ") },
    source: { type: "string", value: "<source>", help: eventOrigins.join(", ") },
    since: {
      type: "string",
      value: "<time>",
      help: "received from then on: 2h ago, or 2026-11-21T12:00:00Z",
    },
    until: { type: "string", value: "<time>", help: "received before then: 2h ago, or 2026-11-21T12:00:00Z" },
  };
}

/** The filter that the options make; `undefined` if none was given. @throws UsageError */
export function filterOf(invocation: Invocation, takenStates = eventStates): EventFilter | undefined {
  const { text } = invocation;
  const ref = text("ref");
  const filter: EventFilter = {
    ref: ref === undefined ? undefined : checkRef(ref, "--ref"),
    type: choiceOf(invocation, "type", eventTypes),
    reason: choiceOf(invocation, "reason", eventReasons),
    state: choiceOf(invocation, "state", takenStates),
    source: choiceOf(invocation, "source", eventOrigins),
    receivedAfter: timeOf(invocation, "since"),
    receivedBefore: timeOf(invocation, "until"),
  };
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

/** @param name - the name of the option or argument, for the error. @throws UsageError */
export function checkRef(ref: string, name: string): string {
  if (!/^(booking|listing):./.test(ref))
    throw new UsageError(`${name} must be booking:<code> or listing:<id>, such as booking:HX3K9.`);
  return ref.trim();
}

/** @throws MissingError if there is no such event */
export async function findEvent(store: EventStore<unknown>, eventId: string): Promise<StoredEvent> {
  const event = await store.get(eventId.toLowerCase());
  if (!event) throw new MissingError(`There is no event ${eventId} in the store.`);
  return event;
}

/** Events in one page of the store's list. */
const PAGE = 1000;

/** All events that match, the newest first. */
export async function* listAll(store: EventStore<unknown>, filter: EventFilter): AsyncGenerator<StoredEvent> {
  let after: string | undefined;
  do {
    const page = await store.list({ ...filter, after, limit: PAGE });
    yield* page;
    after = page.length < PAGE ? undefined : page.at(-1)?.eventId;
  } while (after !== undefined);
}

/** How often the store is read, ms. */
const POLL_INTERVAL = 500;
/** The newest events, which are read each time. A transaction that commits late may add an event among them. */
const WATCHED = 200;
/** Known events. More would fill the memory of a command that runs for weeks. */
const REMEMBERED = 100_000;

/**
 * Yields each new event, the oldest first. Yields one of the 200 newest events again when its state changes. Calls only
 * `list`, so it changes nothing in the store. Returns when the signal aborts.
 *
 * @param since - where to begin; default: with the next event
 * @param warn - called when the store fails; the next read tries again
 */
export async function* followEvents(
  store: EventStore<unknown>,
  filter: Pick<EventFilter, "ref" | "source">,
  { since, signal, warn }: { since?: Date | undefined; signal: AbortSignal; warn: (message: string) => void },
): AsyncGenerator<{ readonly event: StoredEvent; readonly isNew: boolean }> {
  const known = new Map<string, string>();
  const version = ({ state, attempts }: StoredEvent) => `${state} ${attempts}`;
  const [newest] = since ? [] : await store.list({ ...filter, limit: 1 });
  const receivedAfter = since ?? newest?.receivedAt;
  const look = async () => {
    const changed: { event: StoredEvent; isNew: boolean }[] = [];
    let after: string | undefined;
    do {
      const page = await store.list({ ...filter, receivedAfter, after, limit: WATCHED });
      const found = page.map((event) => ({ event, isNew: !known.has(event.eventId) }));
      changed.push(...found.filter(({ event }) => known.get(event.eventId) !== version(event)));
      after = page.length === WATCHED && found.some(({ isNew }) => isNew) ? page.at(-1)?.eventId : undefined;
    } while (after !== undefined && !signal.aborted);
    changed.reverse();
    for (const { event } of changed) known.set(event.eventId, version(event));
    for (const eventId of known.keys()) {
      if (known.size <= REMEMBERED) break;
      known.delete(eventId);
    }
    return changed;
  };
  const before = await look();
  if (since) yield* before;
  let failing = false;
  for (;;) {
    await sleep(POLL_INTERVAL, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      yield* await look();
      failing = false;
    } catch (error) {
      if (!failing) warn(`The store could not be read: ${errorText(error)}. Trying again.`);
      failing = true;
    }
  }
}
