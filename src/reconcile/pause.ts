import { MAX_TIMER } from "../queue/timer.ts";

/** Resolves after `ms`, or as soon as `signal` aborts. `hold`: the process lives on until then. */
export function pause(
  ms: number,
  { signal, hold }: { readonly signal: AbortSignal; readonly hold: boolean },
): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, MAX_TIMER));
    if (!hold) (timer as { unref?: () => void }).unref?.();
    signal.addEventListener("abort", end);
  });
}
