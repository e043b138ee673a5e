// Calls of a store with a time limit: a call that never settles must not stop the queue.

import { withTimeout } from "../async.ts";
import { StayhookError } from "../errors.ts";
import type { EventStore } from "../stores/event-store.ts";

/** How long a store may take to answer a call of the queue, ms. */
const ANSWER = 30_000;

/**
 * Calls a store, and settles like its answer.
 *
 * @param late - gets an answer that comes after the time limit
 * @throws StayhookError if no answer comes in time
 */
export async function answerOf<T>(
  method: string,
  call: () => Promise<T>,
  late?: (answer: T) => void,
): Promise<T> {
  const answer = call();
  const inTime = await withTimeout(
    ANSWER,
    answer.then((value) => ({ value })),
  );
  if (inTime !== undefined) return inTime.value;
  void answer.then(late, () => {});
  throw new StayhookError(`The store did not answer ${method}() within ${ANSWER} ms.`);
}

/** What the work of an attempt needs of a store. */
export type ReadStore<Tx> = Pick<EventStore<Tx>, "get" | "list" | "snapshotOf" | "transactional">;

/** Returns a store whose reads have a time limit, so that a store that never answers cannot hold an attempt up. */
export function patientStore<Tx>(store: ReadStore<Tx>): ReadStore<Tx> {
  return {
    ...(store.transactional && { transactional: true }),
    get: (eventId) => answerOf("get", async () => store.get(eventId)),
    list: (options) => answerOf("list", async () => store.list(options)),
    snapshotOf: (ref) => answerOf("snapshotOf", async () => store.snapshotOf(ref)),
  };
}
