// Lets the handler of this process handle the events that wait.

import { untilAborted } from "../async.ts";
import type { Settings } from "./options.ts";

/** Does not wait for the events. Does nothing if the handler has `autoStart: false`. */
export function handleEvents({ internals, log }: Pick<Settings, "internals" | "log">): void {
  void internals.drainIfStarted().catch((error) => {
    log.error("the handler could not process the events that the reconciler added", { error });
  });
}

/** Resolves when each due event has had an attempt, or when the signal aborts. The handler then still handles them. */
export async function handled({ internals }: Settings, signal: AbortSignal | undefined): Promise<void> {
  const drained = internals.drainIfStarted();
  await (signal ? untilAborted(drained, signal) : drained).catch((error) => {
    if (!signal?.aborted) throw error;
  });
}
