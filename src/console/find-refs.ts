// Finds the records that a user means by a code or an id.

import { inAccount, splitKey } from "../account.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { spellingsOf } from "./known-ref.ts";
import { searchFor } from "./selection.ts";

type Store = Pick<EventStore<unknown>, "list" | "snapshotOf">;

/** A page shows at most this many records to choose from. */
const MOST_REFS = 20;

function refsOf(account: string | undefined, key: string): string[] {
  const [, prefix, id = key] = /^(booking|listing):(.*)$/s.exec(key) ?? [];
  const bookings = spellingsOf(id).map((code) => `booking:${code}`);
  const refs = [
    ...(prefix === "listing" ? [] : bookings),
    ...(prefix === "booking" ? [] : [`listing:${id}`]),
  ];
  return refs.map((ref) => inAccount(account, ref));
}

/** The refs that a text may mean. A code may have a slash. */
function meantBy(text: string, account?: string): string[] {
  const split = splitKey(text);
  const refs = refsOf(split.account ?? account, split.rest);
  return [...new Set(split.account === undefined ? refs : [...refs, ...refsOf(undefined, text)])];
}

/**
 * The records that the store knows by a code, an id or a ref, in any case of a code.
 *
 * @param account - the account of the text, unless the text names one
 */
export async function knownRefs(store: Store, text: string, account?: string): Promise<readonly string[]> {
  const refs = meantBy(text, account);
  const known = await Promise.all(
    refs.map(async (ref) => {
      const [record, events] = await Promise.all([store.snapshotOf(ref), store.list({ ref, limit: 1 })]);
      return record !== undefined || events.length > 0;
    }),
  );
  return refs.filter((_, index) => known[index]);
}

/** The records that a text without an account means in the accounts of the newest events. */
export async function refsOfAccounts(store: Store, text: string): Promise<readonly string[]> {
  const meant = new Set(meantBy(text).map((ref) => ref.toLowerCase()));
  const isMeant = ({ ref }: StoredEvent) => ref !== null && meant.has(splitKey(ref).rest.toLowerCase());
  const { events } = await searchFor(store, {}, isMeant);
  return [...new Set(events.map(({ ref }) => ref!))].slice(0, MOST_REFS);
}
