// Where a store keeps the reconciler's place.

import { inAccount } from "../account.ts";

/** Returns the key of `setMeta`. Each account has a place of its own. */
export function placeKey(account?: string): string {
  return inAccount(account, "stayhook:reconciler");
}
