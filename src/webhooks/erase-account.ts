// Erases all that a store has of an account.

import { StayhookError } from "../errors.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { ErasedAccount } from "../stores/store-options.ts";
import { placeKey } from "./own-ids.ts";

/** @throws StayhookError if the store cannot erase an account */
export async function eraseAccount(store: EventStore<never>, account: string): Promise<ErasedAccount> {
  if (!store.eraseAccount)
    throw new StayhookError("The store has no method eraseAccount. Add it to the store.");
  const erased = await store.eraseAccount(account);
  const key = placeKey(account);
  const place = await store.getMeta(key);
  if (place) await store.setMeta(key, undefined, { expected: place.value });
  return erased;
}
