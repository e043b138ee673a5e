import type { Logger } from "../logger.ts";
import { describeThrown } from "../queue/outcome.ts";

/** The user's `observe`, which may be missing, as a function that does not throw: what it throws is logged. */
export function safeObserve<E>(
  observe: ((event: E) => unknown) | undefined,
  logger: Logger,
): (event: E) => void {
  if (!observe) return () => {};
  const failed = (error: unknown) => logger.warn(`stayhook: observe failed (${describeThrown(error)})`);
  return (event) => {
    try {
      const observed = observe(event);
      if (observed instanceof Promise) observed.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}
