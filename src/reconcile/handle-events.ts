// Lets the handler of this process handle the events that wait.

import type { Settings } from "./options.ts";

/** Does not wait for the events. Does nothing if the handler has `autoStart: false`. */
export function handleEvents({ internals, log }: Pick<Settings, "internals" | "log">): void {
  void internals.drainIfStarted().catch((error) => {
    log.error("the handler could not process the events that the reconciler added", { error });
  });
}
