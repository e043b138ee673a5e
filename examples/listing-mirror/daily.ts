const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** How long to wait before the next pass, in ms. */
export const waits = {
  /** The platform should not be polled more often. */
  done: DAY,
  /** An event was running during the list, so its listing is uncertain. */
  open: 2000,
  /** The platform is out of reach: one minute, then doubled each time, up to an hour. */
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
