// Erases all that a store has of an account.

import { StayhookError } from "../errors.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { ErasedAccount } from "../stores/store-options.ts";
import { placeKey } from "./own-ids.ts";

/** @throws StayhookError if the store cannot erase an account */
export async function eraseAccount(store: EventStore<never>, account: string): Promise<ErasedAccount> {
  if (!store.eraseAccount)
    throw new StayhookError("The store has no method eraseAccount. Add it to the store.");
  // Take the lock from a pass of the account, so that the pass adds nothing that is new: from one that runs, and from one
  // that has begun meanwhile.
  await forgetPlace(store, account);
  const erased = await store.eraseAccount(account);
  await forgetPlace(store, account);
  return erased;
}

/** How many times to try while a pass writes its place. It writes once in several seconds. */
const TRIES = 5;

async function forgetPlace(store: EventStore<never>, account: string): Promise<void> {
  const key = placeKey(account);
  for (let tries = 0; tries < TRIES; tries += 1) {
    const place = await store.getMeta(key);
    if (!place || (await store.setMeta(key, undefined, { expected: place.value }))) return;
  }
}
