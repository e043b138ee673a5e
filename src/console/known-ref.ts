import { inAccount, splitKey } from "../account.ts";
import type { EventStore } from "../stores/event-store.ts";

/**
 * Returns the ref with the code of its record in the case in which the store knows the record. Returns the ref as it is if
 * the store knows no such record.
 */
export async function inKnownCase(store: EventStore<unknown>, ref: string): Promise<string> {
  const { account, rest } = splitKey(ref);
  const [kind = "", code = ""] = rest.split(/:(.*)/s);
  const spellings = new Set([code, code.toUpperCase(), code.toLowerCase()]);
  for (const each of spellings) {
    const known = inAccount(account, `${kind}:${each}`);
    const [event] = await store.list({ ref: known, limit: 1 });
    if (event ?? (await store.snapshotOf(known))) return known;
  }
  return ref;
}
