// Finds the records that a user means by a code or an id.

import { inAccount, refsAbout, splitKey } from "../account.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { forEach } from "./event-pages.ts";
import { searchFor } from "./selection.ts";

type Store = Pick<EventStore<unknown>, "list" | "snapshotOf">;

/** A page shows at most this many records to choose from. */
const MOST_REFS = 20;

/** A ref with its code in each case that the platform may use. People type codes in any case. */
export function inEachCase(ref: string): string[] {
  const { account, rest } = splitKey(ref);
  const [kind = "", code = ""] = rest.split(/:(.*)/s);
  const spellings = new Set([code, code.toUpperCase(), code.toLowerCase()]);
  return [...spellings].map((each) => inAccount(account, `${kind}:${each}`));
}

/** Returns those of the refs of which the store has an event or a snapshot, or of a booking a message. */
export async function knownOf(store: Store, refs: readonly string[]): Promise<readonly string[]> {
  const known = await forEach(refs, async (ref) => {
    const [record, ...events] = await Promise.all([
      store.snapshotOf(ref),
      ...refsAbout(ref).map((each) => store.list({ ref: each, limit: 1 })),
    ]);
    return record !== undefined || events.flat().length > 0;
  });
  return refs.filter((_, index) => known[index]);
}

/** Returns the ref in the case in which the store knows the record, or as it is if the store knows no such record. */
export async function inKnownCase(store: Store, ref: string): Promise<string> {
  const [known = ref] = await knownOf(store, inEachCase(ref));
  return known;
}

function refsOf(account: string | undefined, key: string): string[] {
  const [, kind, id = key] = /^(booking|listing|message):(.*)$/s.exec(key) ?? [];
  const kinds = kind === undefined ? ["booking", "listing"] : [kind];
  return kinds.flatMap((each) => inEachCase(inAccount(account, `${each}:${id}`)));
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
export function knownRefs(store: Store, text: string, account?: string): Promise<readonly string[]> {
  return knownOf(store, meantBy(text, account));
}

/** The records that a text without an account means in the accounts of the newest events. */
export async function refsOfAccounts(store: Store, text: string): Promise<readonly string[]> {
  const meant = new Set(meantBy(text).map((ref) => ref.toLowerCase()));
  const isMeant = ({ ref }: StoredEvent) => ref !== null && meant.has(splitKey(ref).rest.toLowerCase());
  const { events } = await searchFor(store, {}, isMeant);
  return [...new Set(events.map(({ ref }) => ref!))].slice(0, MOST_REFS);
}
