import { inAccount, splitKey } from "../account.ts";
import type { EventStore } from "../stores/event-store.ts";

/** The forms of a code that the platform may use. People type codes in any case. */
export const spellingsOf = (code: string): string[] => [
  ...new Set([code, code.toUpperCase(), code.toLowerCase()]),
];

/**
 * Returns the ref with the code of its record in the case in which the store knows the record. Returns the ref as it is if
 * the store knows no such record.
 */
export async function inKnownCase(store: EventStore<unknown>, ref: string): Promise<string> {
  const { account, rest } = splitKey(ref);
  const [kind = "", code = ""] = rest.split(/:(.*)/s);
  for (const each of spellingsOf(code)) {
    const known = inAccount(account, `${kind}:${each}`);
    const [event] = await store.list({ ref: known, limit: 1 });
    if (event ?? (await store.snapshotOf(known))) return known;
  }
  return ref;
}
