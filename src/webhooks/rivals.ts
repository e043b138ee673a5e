// Notices two handlers that take each other's events.

import type { Log } from "../logger.ts";

/** The number of open handlers without `accountFrom` on each store of this process. */
const open = new WeakMap<object, number>();

/**
 * Counts a handler without `accountFrom`. Warns if another one is open on the same store: an event that one handler has
 * recorded may be claimed by the other one, which reads it with its own token.
 *
 * @returns a function that the handler calls when it closes
 */
export function noteHandler(store: object, log: Log): () => void {
  const others = open.get(store) ?? 0;
  open.set(store, others + 1);
  if (others > 0)
    log.warn(
      "another webhook handler of this process is open on the same store, so they take each other's events. If each has " +
        "an account of its own, those events are lost as `not-found`. Make one handler with `accountFrom`, or close the other one",
    );
  let isOpen = true;
  return () => {
    if (isOpen) open.set(store, (open.get(store) ?? 1) - 1);
    isOpen = false;
  };
}
