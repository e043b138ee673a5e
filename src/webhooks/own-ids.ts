// The ids of events that the package itself adds.

import { v5 } from "uuid";

const OWN = "stayhook:";
/** The UUIDv5 namespace of ids that would be too long. */
const NAMESPACE = "0d0c6f3e-7a55-4a0b-9a43-6a1f3f0f5d27";
/** The longest id that every store can keep, in bytes of UTF-8. */
const LONGEST = 200;

/**
 * Returns the id of an event that the package itself adds, such as `stayhook:recheck:booking:HX3K9`. A notification
 * cannot occupy such an id, because its own id must be a UUID.
 */
export function ownId(kind: "recheck" | "follow-up" | "reconcile" | "timer", rest: string): string {
  const id = `${OWN}${kind}:${rest}`;
  return new TextEncoder().encode(id).length <= LONGEST ? id : `${OWN}${kind}:${v5(rest, NAMESPACE)}`;
}
