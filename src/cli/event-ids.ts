// The short ids that a table on a terminal shows, and the events that they mean.

import { inAccount, splitKey } from "../account.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { storedId } from "../webhooks/own-ids.ts";
import { MissingError, UsageError } from "./command.ts";

const OWN = "stayhook:";
/** The lengths to which a UUID is shortened. The first events of one minute may share 8 characters, if they are UUIDv7. */
const LENGTHS = [8, 13, 18, 23, 36];
/** The smallest length of a prefix. A shorter one would match too many events. */
const LEAST = 4;
/** A prefix is looked for among this many of the newest events. */
const MOST_READ = 100_000;

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const firing = /^(timer:.*):\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/s;

/** Returns the short ids of events by their ids. They are as long as it takes to tell the events apart. */
export function shortIds(events: readonly Pick<StoredEvent, "eventId">[]): ReadonlyMap<string, string> {
  const ids = new Set(events.map(({ eventId }) => eventId));
  const length = LENGTHS.find((each) => new Set([...ids].map((id) => shortId(id, each))).size === ids.size);
  return new Map([...ids].map((id) => [id, length === undefined ? id : shortId(id, length)]));
}

/** Shortens an id: without `stayhook:`, without the time of a timer, and with the start of a UUID. */
function shortId(eventId: string, length: number): string {
  const { account, rest } = splitKey(eventId);
  const own = rest.startsWith(OWN) ? rest.slice(OWN.length).replace(firing, "$1") : rest;
  return inAccount(
    account,
    own.replace(uuid, (found) => found.slice(0, length)),
  );
}

/**
 * Finds the event with this id, or the only event whose id, or whose id behind `stayhook:`, begins with the text.
 * Short ids are looked for among the newest 100,000 events.
 *
 * @throws MissingError if there is none; UsageError if there are several
 */
export async function findEvent(store: EventStore<unknown>, given: string): Promise<StoredEvent> {
  const id = storedId(given);
  const { account, rest } = splitKey(id);
  // Ids of the package's own events keep their case, because they have the codes of bookings in them.
  const own = inAccount(account, OWN + splitKey(given.trim()).rest);
  const exact = (await store.get(id)) ?? (rest.startsWith(OWN) ? undefined : await store.get(own));
  if (exact) return exact;
  const found = given.length < LEAST ? [] : await startingWith(store, [id, own], account);
  if (found.length === 1) return found[0]!;
  if (found.length > 1)
    throw new UsageError(
      `Several events begin with ${given}: ${found.map(({ eventId }) => eventId).join(", ")}. Give more of the id.`,
    );
  throw new MissingError(`There is no event ${given} in the store.`);
}

/** Returns at most two events whose id begins with one of the prefixes. */
async function startingWith(
  store: EventStore<unknown>,
  prefixes: readonly string[],
  account: string | undefined,
): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  let read = 0;
  for await (const event of eachEvent(store, { account })) {
    if (prefixes.some((prefix) => event.eventId.startsWith(prefix))) found.push(event);
    read += 1;
    if (found.length > 1 || read >= MOST_READ) break;
  }
  return found;
}
