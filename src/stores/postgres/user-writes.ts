// Not the globals: a database goes by no fake clock.
import { clearTimeout, setTimeout } from "node:timers";
import type { ClientBase } from "pg";
import type { Outcome } from "../event-store.ts";
import { InvalidWriteError } from "../write-error.ts";
import type { Session } from "./connections.ts";
import { serverGone, sqlState } from "./errors.ts";

export type Writes = NonNullable<Extract<Outcome<ClientBase>, { readonly state: "done" }>["writes"]>;

/** How long the writes of one event may take together, ms: they hold a connection. */
export const MOST_TIME = 60_000;

/** A write of the user's failed. Its `cause` is the user's own error. */
export class WriteFailed extends Error {}

/**
 * Runs the user's writes inside the open transaction of `session`.
 *
 * @throws {@link WriteFailed} where a write throws; `InvalidWriteError` where one has left the transaction unusable
 */
export async function runWrites(session: Session, writes: Writes): Promise<void> {
  await session.query("SAVEPOINT stayhook_writes");
  await withinTime(async () => {
    try {
      for (const write of writes) await write(session.client);
    } catch (cause) {
      // The store's failure: the attempt is made again, and the callback is not to blame.
      if (session.isLost() || serverGone(cause))
        throw new Error("the connection was lost during event.atomically", { cause });
      throw new WriteFailed("a write failed", { cause });
    }
  });
  try {
    await session.query("RELEASE SAVEPOINT stayhook_writes");
  } catch (cause) {
    const state = sqlState(cause);
    if (state === undefined) throw cause;
    throw new InvalidWriteError(state === "25P02" ? FAILED : ENDED, { cause });
  }
}

const ENDED =
  "a write of event.atomically ended the transaction that it runs in: it must not BEGIN, COMMIT or ROLLBACK";
const FAILED =
  "a statement of a write of event.atomically failed, and the write went on: PostgreSQL then undoes the whole transaction. Let the error through, or put the statement behind a SAVEPOINT";

async function withinTime(run: () => Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const running = run();
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new InvalidWriteError(`the writes of event.atomically took longer than ${MOST_TIME} ms`));
    }, MOST_TIME);
  });
  try {
    await Promise.race([running, late]);
  } finally {
    clearTimeout(timer);
    running.catch(() => {});
  }
}
