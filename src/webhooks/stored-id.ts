// The form in which stores keep an event id.

import { inAccount, splitKey } from "../account.ts";

const OWN = "stayhook:";

/**
 * Returns the id in the form that stores keep: in lower case, unless it is an id of the package's own events. The case of
 * an account counts.
 */
export function storedId(eventId: string): string {
  const { account, rest } = splitKey(eventId);
  const isOwn = rest.slice(0, OWN.length).toLowerCase() === OWN;
  return inAccount(account, isOwn ? rest : rest.toLowerCase());
}
