// Gives what an app for one account has stored to an account, for an app that begins to serve many.

import { accountOf, inAccount, refsAbout, splitKey } from "../account.ts";
import { StayhookError } from "../errors.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventStore } from "../stores/event-store.ts";
import { rowIdOf } from "../stores/firing-id.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { inAccountId, placeKey } from "../webhooks/own-ids.ts";
import { asWaiting, copyPlace, isHeld } from "./moved-events.ts";

type Store = EventStore<unknown>;

/** What {@link adoptInto} did. */
export interface Adopted {
  /** How many events the account has got. */
  readonly events: number;
  /** How many snapshots the account has got. */
  readonly snapshots: number;
  /** How many records, and events without a record, are left, because a process is handling them. */
  readonly processing: number;
}

/**
 * Gives all events, timers and snapshots without an account to an account, and the place of the reconciler. Each record is
 * copied before it is erased, so that nothing is lost if the process dies. The next call then goes on.
 */
export async function adoptInto(store: Store, account: string): Promise<Adopted> {
  const refs = new Set<string>();
  const withoutRecord: string[] = [];
  for (const kept of [store.snapshots(), store.ledgers()])
    for await (const { ref } of kept) if (splitKey(ref).account === undefined) refs.add(ref);
  for await (const event of eachEvent(store, {})) {
    if (accountOf(event) !== undefined) continue;
    if (event.ref === null) withoutRecord.push(event.eventId);
    else refs.add(event.ref);
  }
  let [events, snapshots, processing] = [0, 0, 0];
  for (const ref of refs) {
    const moved = await moveRecord(store, account, ref);
    events += moved?.events ?? 0;
    snapshots += moved?.snapshots ?? 0;
    if (!moved) processing += 1;
  }
  for (const eventId of withoutRecord.reverse()) {
    const moved = await moveAlone(store, account, eventId);
    if (moved === "new") events += 1;
    if (moved === "held") processing += 1;
  }
  await movePlace(store, account);
  return { events, snapshots, processing };
}

/** How often to look for events that arrive while a record is copied. */
const TRIES = 10;

/** Copies a record and erases the original. Resolves to `undefined` if a process is handling one of its events. */
async function moveRecord(store: Store, account: string, ref: string) {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const events = await eventsOf(store, ref);
    if (events.some(isHeld)) return undefined;
    const record = await store.snapshotOf(ref);
    const snapshots = record ? [{ ...record, ref: inAccount(account, ref) }] : [];
    const ledger = await store.ledgerOf(ref);
    const ledgers = ledger === undefined ? [] : [{ ref: inAccount(account, ref), ledger }];
    await store.restore({ events: events.map((event) => moved(event, account)), snapshots, ledgers });
    // Erase nothing that was not copied: a process of the old app may have recorded an event meanwhile.
    const again = await eventsOf(store, ref);
    if (again.length !== events.length || !again.every(({ eventId }, n) => eventId === events[n]!.eventId))
      continue;
    try {
      await store.erase(ref);
    } catch (error) {
      if (error instanceof StayhookError) return undefined;
      throw error;
    }
    return { events: events.length, snapshots: snapshots.length };
  }
  return undefined;
}

/**
 * The events of a record, the oldest first: those that come first in `restore` count as received first. With those of a
 * booking come the messages about it, because `erase` deletes them, too.
 */
async function eventsOf(store: Store, ref: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (const each of refsAbout(ref))
    for await (const event of eachEvent(store, { ref: each })) events.push(event);
  return events.reverse();
}

/** Moves an event without a record. The original stays as discarded, because a store deletes single events only by age. */
async function moveAlone(store: Store, account: string, eventId: string): Promise<"new" | "known" | "held"> {
  const event = await store.get(eventId);
  if (!event) return "known";
  if (isHeld(event)) return "held";
  const copy = moved(event, account);
  const isNew = (await store.get(copy.eventId)) === undefined;
  await store.restore({ events: [copy], snapshots: [] });
  await store.discard({ eventId });
  return isNew ? "new" : "known";
}

async function movePlace(store: Store, account: string): Promise<void> {
  const expected = await copyPlace(store, store, account);
  if (expected !== undefined) await store.setMeta(placeKey(), undefined, { expected });
}

function moved(event: StoredEvent, account: string): StoredEvent {
  const { eventId } = rowIdOf(event.eventId);
  return {
    ...asWaiting(event),
    eventId: inAccountId(account, eventId),
    ref: event.ref === null ? null : inAccount(account, event.ref),
  };
}
