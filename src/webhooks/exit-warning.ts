import type { Log } from "../logger.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";

/** The part of Node's `process` that tells when nothing keeps the process alive. Workers do not have it. */
interface Process {
  once?(event: "beforeExit", listener: () => void): unknown;
  off?(event: "beforeExit", listener: () => void): unknown;
}

/** The states of events that the process would have handled if it had stayed alive. */
const OPEN: readonly EventState[] = ["scheduled", "pending", "processing", "retrying"];

// One listener for all handlers, because Node warns of more than ten.
const handlers = new Set<() => Promise<void>>();
const { process } = globalThis as { readonly process?: Process };
const listener = (): void => {
  for (const warn of handlers) void warn().catch(() => {});
};

/**
 * Warns once if the process ends by itself while events wait, because `start()` does not keep it alive.
 *
 * @returns a function that takes the warning back
 */
export function warnAtExit(store: Pick<EventStore<never>, "counts">, log: Log): () => void {
  // Node waits for what this listener begins, so the store can still be asked.
  const warn = async () => {
    const counts = await store.counts();
    const open = OPEN.reduce((sum, state) => sum + counts[state], 0);
    if (open === 0) return;
    const waiting = open === 1 ? "1 event waits" : `${open} events wait`;
    log.warn(
      `the process ends although ${waiting}, because start() does not keep it alive. Add a timer or a server`,
    );
  };
  if (handlers.size === 0) process?.once?.("beforeExit", listener);
  handlers.add(warn);
  return () => {
    handlers.delete(warn);
    if (handlers.size === 0) process?.off?.("beforeExit", listener);
  };
}
