const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** How long to wait before the next pass, in ms. */
export const waits = {
  /** After a complete pass. Apps should not poll the platform more often. */
  done: DAY,
  /** After a pass during which an event was running, because the state of that event's listing is uncertain. */
  open: 2000,
  /** While the platform is out of reach: one minute at first, then twice as long each time, up to an hour. */
  failed: (failures: number) => Math.min(MINUTE * 2 ** (failures - 1), 60 * MINUTE),
};

/**
 * Runs one pass after the other. The next pass starts a day after a complete pass, and sooner after any other pass.
 *
 * @param pass - resolves to `true` if the pass was complete
 * @returns a function that stops the passes
 */
export function keepRunning(pass: () => Promise<boolean>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let failures = 0;
  const run = async (): Promise<void> => {
    let wait: number;
    try {
      wait = (await pass()) ? waits.done : waits.open;
      failures = 0;
    } catch (error) {
      failures += 1;
      wait = waits.failed(failures);
      if (!stopped) console.error(`the listings could not be listed; again in ${wait / MINUTE} min:`, error);
    }
    if (!stopped) timer = setTimeout(run, wait);
  };
  void run();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
