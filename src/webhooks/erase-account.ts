// Erases all that a store has of an account.

import { checkAccount } from "../account.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { ErasedAccount } from "../stores/store-options.ts";
import type { HandlerParts } from "./handler-parts.ts";
import { placeKey } from "./own-ids.ts";

/**
 * Erases an account of a handler, and ends its pauses.
 *
 * @throws InvalidArgumentError if `id` is no account, or if the handler has no `accountFrom`
 * @throws StayhookError if the handler has no store, or if the store cannot erase an account
 */
export async function eraseIn<Tx>(
  { hasAccounts, store, queue }: Pick<HandlerParts<Tx>, "hasAccounts" | "store" | "queue">,
  id: string,
): Promise<ErasedAccount> {
  const account = checkAccount(id, ["id"]);
  if (!hasAccounts)
    throw new InvalidArgumentError({
      path: [],
      message: "eraseAccount() needs a handler with the option accountFrom",
    });
  if (!store) throw new StayhookError("eraseAccount() needs an EventStore. forwardTo keeps no events.");
  const erased = await eraseAccount(store, account);
  queue?.gates.closeAccount(account);
  return erased;
}

/** @throws StayhookError if the store cannot erase an account */
export async function eraseAccount(store: EventStore<never>, account: string): Promise<ErasedAccount> {
  if (!store.eraseAccount)
    throw new StayhookError("The store has no method eraseAccount. Add it to the store.");
  // A pass of the reconciler that loses its lock adds no new record. Take the lock from a pass that runs now, and then from
  // one that begins meanwhile.
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
