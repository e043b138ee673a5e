import type { ClientBase } from "pg";
import { InvalidWriteError } from "../../errors.ts";
import type { ClaimedEvent, Outcome } from "../event-store.ts";
import { LONGEST_WRITES, WriteFailed, writeWithinTime } from "../server-pool.ts";
import { type Row, type Session, Undone } from "./connections.ts";
import { PATIENCE } from "./groups.ts";
import { hasTimedOut, lostConnection, serverGone, sqlState } from "./postgres-errors.ts";
import { settleValues, toEnding, toText } from "./postgres-rows.ts";
import type { Statements } from "./statements.ts";

export type Writes = NonNullable<Extract<Outcome<ClientBase>, { readonly state: "done" }>["writes"]>;

/** After this time, the server ends a session whose process is frozen, so that its locks are released. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = ${LONGEST_WRITES}`;
/** How the end of a lease is recorded. */
export interface Ending {
  readonly statements: Statements;
  readonly claim: ClaimedEvent;
  readonly outcome: Outcome<ClientBase>;
  readonly writes: Writes;
  /** The end may have been recorded before. */
  readonly unsure: boolean;
}

/**
 * Ends an event with the user's writes in one transaction. The writes go first, so that a new event of the record waits
 * only for the last statement.
 *
 * @returns the row of `settle_events`; `undefined` where the lease was lost
 */
export async function settleWithWrites(session: Session, ending: Ending): Promise<Row | undefined> {
  const { statements, claim, outcome, writes, unsure } = ending;
  const stateOf = async (): Promise<string | null | undefined> => {
    const [row] = await session.query(statements.stateOfLease, [toText(claim.eventId), claim.lease]);
    return row?.lease;
  };
  await session.query(BEGIN);
  try {
    if ((await stateOf()) === "held") {
      await runWrites(session, writes);
      // If the end was recorded before, these writes would be made twice.
      const values = settleValues([toEnding(claim, outcome, false)], PATIENCE.alone);
      const [row] = await session.query(statements.settleAtLast, values);
      if (row?.settled === "true") {
        await session.query("COMMIT");
        return row;
      }
    }
    await session.query("ROLLBACK");
    return unsure && (await stateOf()) === "settled" ? { settled: "true" } : undefined;
  } catch (error) {
    throw await undo(session, error);
  }
}

/** Cleans up a connection that still answers, so that it can be lent again. */
async function undo(session: Session, error: unknown): Promise<unknown> {
  if (!(error instanceof WriteFailed) && lostConnection(error)) return error;
  try {
    await session.query("ROLLBACK");
    return new Undone("undone", { cause: error });
  } catch {
    return error;
  }
}

/**
 * Runs the user's writes inside the open transaction of `session`.
 *
 * @throws WriteFailed where a write throws; `InvalidWriteError` where one has left the transaction unusable
 */
async function runWrites(session: Session, writes: Writes): Promise<void> {
  await session.query("SAVEPOINT stayhook_writes");
  await writeWithinTime(async () => {
    try {
      for (const write of writes) await write(session.client);
    } catch (cause) {
      // The connection failed, not the callback. So this is an error of the store, and the attempt is retried.
      if (session.isLost() || serverGone(cause) || hasTimedOut(cause))
        throw new Error("a statement of event.atomically got no answer", { cause });
      throw new WriteFailed(cause);
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
