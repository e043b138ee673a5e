// The ids and keys that the package itself makes. They begin with `stayhook:`, which no UUID does.

import { v5 } from "uuid";
import { inAccount, splitKey } from "../account.ts";

const OWN = "stayhook:";
/** The UUIDv5 namespace of ids that would be too long. */
const NAMESPACE = "0d0c6f3e-7a55-4a0b-9a43-6a1f3f0f5d27";
/** The longest id that every store can keep, in bytes of UTF-8. The id of a timer's firing is up to 28 bytes longer. */
const LONGEST = 200;

/** The kinds of events that look again at a record that is known, which means that the store has its snapshot. */
const ofKnown = ["recheck", "refused", "reconcile-known", "again-known"] as const;
const kinds = [...ofKnown, "follow-up", "reconcile", "again", "timer", "thing"] as const;
type OwnKind = (typeof kinds)[number];

/**
 * Returns the id of an event that the package itself adds, such as `stayhook:recheck:booking:HX3K9`. A notification
 * cannot occupy such an id, because its own id must be a UUID.
 *
 * @param name - the ref or id that the event is about. Its account comes first: `a17/stayhook:recheck:booking:HX3K9`
 */
export function ownId(kind: OwnKind, name: string): string {
  const { account, rest } = splitKey(name);
  const id = inAccount(account, `${OWN}${kind}:${rest}`);
  if (new TextEncoder().encode(id).length <= LONGEST) return id;
  return inAccount(account, `${OWN}${kind}:${v5(rest, NAMESPACE)}`);
}

/** Returns the id of an event of a thing. @param name - a name that no other event of the record has */
export function thingId(ref: string, name: string): string {
  return ownId("thing", `${ref}:${name}`);
}

/** Whether {@link ownId} has made the id for this kind of event. */
export function isOwnId(kind: OwnKind, eventId: string): boolean {
  return splitKey(eventId).rest.startsWith(`${OWN}${kind}:`);
}

/** Whether the package added the event because it knew the record. If the record has no snapshot now, it was erased. */
export function isOfKnownRecord(eventId: string): boolean {
  return ofKnown.some((kind) => isOwnId(kind, eventId));
}

/** Returns the id that an event without an account has in an account. */
export function inAccountId(account: string, eventId: string): string {
  const kind = kinds.find((each) => isOwnId(each, eventId));
  if (kind === undefined) return inAccount(account, eventId);
  return ownId(kind, inAccount(account, eventId.slice(`${OWN}${kind}:`.length)));
}

/**
 * Returns an id in the form that stores keep: in lower case, unless it is an id of the package's own events. The case of an
 * account counts.
 */
export function storedId(eventId: string): string {
  const { account, rest } = splitKey(eventId);
  const isOwn = rest.slice(0, OWN.length).toLowerCase() === OWN;
  return inAccount(account, isOwn ? rest : rest.toLowerCase());
}

/** Returns the key of the meta value with the reconciler's place. Each account has a place of its own. */
export function placeKey(account?: string): string {
  return inAccount(account, `${OWN}reconciler`);
}
