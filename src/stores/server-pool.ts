// Use imported timers: a test's fake timers replace the globals, and would stop the timeouts.
import { clearTimeout, setTimeout } from "node:timers";
import { InvalidWriteError } from "../errors.ts";

/** The time limit for all `event.atomically` functions of one event, ms. They hold a connection of the pool. */
export const LONGEST_WRITES = 60_000;

/** Thrown if a function passed to `event.atomically` throws. The error of this function is the `cause`. */
export class WriteFailed extends Error {
  constructor(cause: unknown) {
    super("a function passed to event.atomically threw an error", { cause });
  }
}

/** Waits at most `ms` for a connection. Releases a connection that arrives later. */
export async function connectWithin<C extends { release(): void }>(
  ms: number,
  connecting: Promise<C>,
): Promise<C> {
  let late = false;
  connecting.then(
    (connection) => late && connection.release(),
    () => {},
  );
  return within(ms, connecting, () => {
    late = true;
    return new Error(`the pool gave no connection within ${ms} ms`);
  });
}

/** @throws `InvalidWriteError` if `run` takes longer than {@link LONGEST_WRITES} ms */
export function writeWithinTime(run: () => Promise<void>): Promise<void> {
  const message = `The functions passed to event.atomically took longer than ${LONGEST_WRITES} ms. Do slow work before you call event.atomically.`;
  return within(LONGEST_WRITES, run(), () => new InvalidWriteError(message));
}

async function within<T>(ms: number, promise: Promise<T>, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    // `Promise.race` also handles a late rejection of `promise`, so Node does not report it as unhandled.
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
