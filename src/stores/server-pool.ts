// Not the globals: a server does not follow a fake clock.
import { clearTimeout, setTimeout } from "node:timers";
import { InvalidWriteError } from "../errors.ts";

/** How long the writes of one event may take together, ms. They hold a connection. */
export const LONGEST_WRITES = 60_000;

/** A write of `event.atomically` threw its `cause`. */
export class WriteFailed extends Error {
  constructor(cause: unknown) {
    super("a write of event.atomically failed", { cause });
  }
}

/** Waits `ms` at most for a connection. A connection that comes later goes back to its pool. */
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
    return new Error(`no connection within ${ms} ms`);
  });
}

/** @throws `InvalidWriteError` where the writes take longer than {@link LONGEST_WRITES} */
export function writeWithinTime(run: () => Promise<void>): Promise<void> {
  const message = `The writes of event.atomically took longer than ${LONGEST_WRITES} ms. Do slow work before you call it.`;
  return within(LONGEST_WRITES, run(), () => new InvalidWriteError(message));
}

async function within<T>(ms: number, promise: Promise<T>, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    // The race handles a late rejection of the promise, too.
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
