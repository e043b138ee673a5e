// Groups parked events by cause: the reason, and the first line of the last error without the ids in it.

import { accountOf, splitKey } from "../account.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { eachEvent } from "./event-pages.ts";

type Store = EventStore<unknown>;

/** Parked events that failed in the same way. */
export interface Cause {
  /** Names the cause in a URL. It is a hash, because an error may have personal data. */
  readonly key: string;
  /** The newest of the events. */
  readonly event: StoredEvent;
  readonly count: number;
  readonly records: number;
  readonly accounts: number;
  /** When the first and the last of them parked. */
  readonly first: Date;
  readonly last: Date;
}

/** Groups are made of at most this many events, of those that were received last. */
export const MOST_GROUPED = 10_000;

/** When the event parked: at the end of its last attempt. */
export function parkedAt({ history, receivedAt }: Pick<StoredEvent, "history" | "receivedAt">): Date {
  const last = history.at(-1);
  return last ? new Date(last.at.getTime() + last.duration) : receivedAt;
}

/** The first line of an error, in which codes and long numbers are dots, so that equal errors of other records are equal. */
function lineOf({ history, ref }: StoredEvent): string {
  const line = (history.at(-1)?.error ?? "").split(/\n| <- /, 1)[0]!;
  const id = ref === null ? "" : splitKey(ref).rest.replace(/^\w+:/, "");
  return (id === "" ? line : line.replaceAll(id, "…"))
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, "…")
    .replace(/\d{4,}/g, "…");
}

/** The key of an event's cause. */
export function causeOf(event: StoredEvent): string {
  return hash(`${event.reason} ${lineOf(event)}`);
}

/** FNV-1a with two seeds. A collision would only put two causes into one group. */
function hash(text: string): string {
  return [0x811c9dc5, 0x2f0b4c47]
    .map((seed) => {
      let value = seed;
      for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
      return (value >>> 0).toString(16).padStart(8, "0");
    })
    .join("");
}

/** The causes of the parked events that match, the most frequent first. */
export async function causesOf(store: Store, filter: EventFilter): Promise<readonly Cause[]> {
  const groups = new Map<string, StoredEvent[]>();
  let read = 0;
  for await (const event of eachEvent(store, { ...filter, state: "parked" })) {
    const key = causeOf(event);
    const group = groups.get(key);
    if (group) group.push(event);
    else groups.set(key, [event]);
    read += 1;
    if (read >= MOST_GROUPED) break;
  }
  const causes = [...groups].map(([key, events]): Cause => {
    const times = events.map((event) => parkedAt(event).getTime());
    return {
      key,
      event: events[0]!,
      count: events.length,
      records: new Set(events.map(({ ref }) => ref)).size,
      accounts: new Set(events.map(accountOf).filter(Boolean)).size,
      first: new Date(Math.min(...times)),
      last: new Date(Math.max(...times)),
    };
  });
  return causes.sort((one, other) => other.count - one.count);
}

/** The parked events of a cause, the newest first. */
export async function eventsOfCause(
  store: Store,
  filter: EventFilter,
  cause: string,
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  let read = 0;
  // The list begins behind `after` in all matching events, which also has the events of other causes.
  let isBehind = after === undefined;
  for await (const event of eachEvent(store, { ...filter, state: "parked" })) {
    if (isBehind && causeOf(event) === cause) found.push(event);
    isBehind ||= event.eventId === after;
    read += 1;
    if (found.length >= limit || read >= MOST_GROUPED) break;
  }
  return found;
}
