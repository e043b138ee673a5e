// Not the globals: a user's fake timers would stop the recording.
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import type { ClientBase } from "pg";
import { InvalidWriteError } from "../../errors.ts";
import type { ClaimedEvent, Outcome } from "../event-store.ts";
import { LONGEST_WRITES, WriteFailed, writeWithinTime } from "../server-pool.ts";
import {
  type Connections,
  hasTimedOut,
  isReadOnly,
  LOCKED,
  lostConnection,
  type Session,
  serverGone,
  sqlState,
  storeError,
  Undone,
} from "./postgres-connections.ts";
import {
  type Part,
  type Row,
  type Statements,
  settleValues,
  toEnding,
  toText,
} from "./postgres-statements.ts";

/** The transaction conflicted with another one. PostgreSQL has rolled it back, so it may be retried at once. */
const TRY_AGAIN = ["40001", "40P01"];
/** How often a transaction that conflicts with another one is tried. */
const TRIES = 4;
/** How often to look for the leases of an unanswered claim, ms. PostgreSQL may still run that claim. */
const AGAIN = 1000;
/** How many commands without an answer are remembered of each kind. */
const MOST = 10_000;

export interface CommandsOptions {
  readonly statements: Statements;
  /** Makes or upgrades the schema. */
  migrate(session: Session): Promise<void>;
  /** Throws when the store is closed. */
  assertOpen(): void;
  /** Tells other processes that something is due sooner. */
  madeDue(): void;
}

/** Runs commands after the schema exists, and recovers from lost answers. */
export class Commands {
  readonly lost = new Lost();
  readonly #connections: Connections;
  readonly #options: CommandsOptions;
  #ready: Promise<void> | undefined;

  constructor(connections: Connections, options: CommandsOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  /** @param doing - says what failed, for errors */
  async call<T>(doing: string, run: () => Promise<T>): Promise<T> {
    this.#options.assertOpen();
    try {
      this.#ready ??= this.#migrate();
      await this.#ready;
      this.#options.assertOpen();
      return await run();
    } catch (error) {
      throw error instanceof WriteFailed ? error.cause : storeError(doing, error);
    }
  }

  query(doing: string, text: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.call(doing, async () => {
      await this.#giveBack();
      return again(() => this.#connections.query(text, values));
    });
  }

  /** Runs a claim. If its answer is lost, the next command releases its events. */
  claim(token: string, leaseDuration: number, values: readonly unknown[]): Promise<Row[]> {
    return this.call("events could not be claimed", async () => {
      await this.#giveBack();
      return again(() =>
        this.#connections.use(async (session) => {
          try {
            return await session.query(this.#options.statements.claim, values);
          } catch (error) {
            if (sqlState(error) === undefined) this.lost.claim(token, leaseDuration);
            throw error;
          }
        }),
      );
    });
  }

  /** Releases the events of claims whose answers were lost. No process works on them, so the attempt must not count. */
  async #giveBack(): Promise<void> {
    const tokens = this.lost.claims();
    if (tokens.length === 0) return;
    // Do not fail the caller: a later call tries again.
    const rows = await this.#connections.query(this.#options.statements.giveBack, [tokens]).catch(() => []);
    this.lost.released(rows.map(({ token }) => token as string));
    if (rows.length > 0) this.#options.madeDue();
  }

  async #migrate(): Promise<void> {
    try {
      await this.#connections.use((session) => this.#options.migrate(session));
    } catch (error) {
      // The next call tries again.
      this.#ready = undefined;
      throw error;
    }
  }
}

/** Retries a command if PostgreSQL rolled it back after a conflict, or if the server was read-only. */
export async function again<T>(run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run();
    } catch (error) {
      const repeatable = TRY_AGAIN.includes(
        sqlState(error instanceof WriteFailed ? error.cause : error) ?? "",
      );
      if (tries >= TRIES || !(repeatable || (isReadOnly(error) && tries === 1))) throw error;
    }
  }
}

/** Remembers commands whose answers were lost with their connection. The server may have run them, or may run them later. */
class Lost {
  readonly #claims = new Map<string, number>();
  readonly #settlings = new Set<string>();
  #askedAt = Number.NEGATIVE_INFINITY;

  /** Remembers an unanswered claim until its lease would end. After that its events are free anyway. */
  claim(token: string, leaseDuration: number): void {
    this.#claims.set(token, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
    this.#askedAt = Number.NEGATIVE_INFINITY;
  }

  /** Returns the tokens of unanswered claims, at most once in {@link AGAIN} ms. */
  claims(): string[] {
    const now = performance.now();
    if (this.#claims.size === 0 || now - this.#askedAt < AGAIN) return [];
    this.#askedAt = now;
    for (const [token, until] of this.#claims) if (until <= now) this.#claims.delete(token);
    return [...this.#claims.keys()];
  }

  released(tokens: readonly string[]): void {
    for (const token of tokens) this.#claims.delete(token);
  }

  /** Remembers an unanswered settle. */
  settling(lease: string): void {
    this.#settlings.add(lease);
    forgetOldest(this.#settlings);
  }

  isUnsure(lease: string): boolean {
    return this.#settlings.has(lease);
  }

  settled(lease: string): void {
    this.#settlings.delete(lease);
  }
}

function forgetOldest(memory: Map<string, unknown> | Set<string>): void {
  const [oldest] = memory.keys();
  if (memory.size > MOST) memory.delete(oldest!);
}

/** The limits of one statement. */
const MOST_EVENTS = 256;
const MOST_TEXT = 1_000_000;
/** How many statements may run at once. A statement that has run for SLOW does not count: it waits for a lock. */
const AT_ONCE = 2;
/** ms */
const SLOW = 50;

/** How long a statement waits for a locked record. The wait is short if the statement also has other records. */
export const PATIENCE = { together: "250ms", alone: "5s" } as const;

type Send<P, A> = (parts: readonly P[], patience: string) => Promise<readonly A[]>;

interface Job<P, A> {
  readonly part: P;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Groups the parts of statements of one kind. All parts that come in while a statement runs share the next statement, and
 * its wait for the disk. If the statement fails, each record's parts are sent again alone. A record is in one statement
 * at a time, so that a locked record does not keep all connections waiting.
 */
export class Groups<P extends Part, A> {
  readonly #send: Send<P, A>;
  readonly #oncePerRecord: boolean;
  readonly #running = new Set<Promise<void>>();
  readonly #underWay = new Set<string>();
  #queue: Job<P, A>[] = [];
  /** The jobs of each statement that counts. */
  readonly #counted = new Set<readonly Job<P, A>[]>();
  #scheduled = false;

  /**
   * @param send - runs the statement of some parts. Its transaction does all of them, or nothing.
   * @param oncePerRecord - a statement has one part of a record at most
   */
  constructor(send: Send<P, A>, oncePerRecord: boolean) {
    this.#send = send;
    this.#oncePerRecord = oncePerRecord;
  }

  /** Resolves or rejects with the statement that the part is sent in. */
  add(part: P): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ part, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#queue.length > 0 || this.#running.size > 0) {
      await Promise.all(this.#running);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#counted.size >= AT_ONCE || this.#queue.length === 0) return;
    this.#scheduled = true;
    // Wait for the sockets to be read, so that requests that have arrived share the statement.
    setImmediate(() => {
      this.#scheduled = false;
      const jobs = this.#take();
      // Every record is in a running statement. The end of a statement schedules again.
      if (jobs.length === 0) return;
      const running = this.#run(jobs).finally(() => this.#running.delete(running));
      this.#running.add(running);
      this.#schedule();
    });
  }

  #take(): Job<P, A>[] {
    const taken: Job<P, A>[] = [];
    const left: Job<P, A>[] = [];
    let text = 0;
    for (const job of this.#queue) {
      const { record, length } = job.part;
      text += this.#underWay.has(record) ? 0 : length;
      const full = taken.length >= MOST_EVENTS || (text > MOST_TEXT && taken.length > 0);
      const kept = full || this.#underWay.has(record);
      (kept ? left : taken).push(job);
      if (!kept && this.#oncePerRecord) this.#underWay.add(record);
    }
    this.#queue = left;
    for (const { part } of taken) this.#underWay.add(part.record);
    return taken;
  }

  async #run(jobs: readonly Job<P, A>[]): Promise<void> {
    this.#counted.add(jobs);
    const over = (): void => {
      if (this.#counted.delete(jobs)) this.#schedule();
    };
    const slow = setTimeout(over, SLOW);
    try {
      await this.#together(jobs);
    } finally {
      clearTimeout(slow);
      over();
    }
  }

  async #together(jobs: readonly Job<P, A>[]): Promise<void> {
    const records = Map.groupBy(jobs, ({ part }) => part.record);
    if (records.size === 1) return this.#ofOne(jobs);
    const error = await this.#try(jobs, PATIENCE.together);
    if (error === undefined) this.#ended(jobs);
    else if (lostConnection(error)) this.#reject(jobs, error);
    else await Promise.all([...records.values()].map((some) => this.#ofOne(some)));
  }

  /** Parts of one record. */
  async #ofOne(jobs: readonly Job<P, A>[]): Promise<void> {
    const error = await this.#try(jobs, PATIENCE.alone);
    if (error === undefined) this.#ended(jobs);
    else if (jobs.length === 1 || sqlState(error) === LOCKED || lostConnection(error))
      this.#reject(jobs, error);
    else for (const job of jobs) await this.#ofOne([job]);
  }

  /** @returns the error, if it failed */
  async #try(jobs: readonly Job<P, A>[], patience: string): Promise<unknown> {
    try {
      const parts = jobs.map(({ part }) => part);
      const answers = await this.#send(parts, patience);
      for (const [index, { resolve }] of jobs.entries()) resolve(answers[index] as A);
      return undefined;
    } catch (error) {
      return error ?? new Error("the statement failed without an error");
    }
  }

  #reject(jobs: readonly Job<P, A>[], error: unknown): void {
    for (const { reject } of jobs) reject(error);
    this.#ended(jobs);
  }

  #ended(jobs: readonly Job<P, A>[]): void {
    for (const { part } of jobs) this.#underWay.delete(part.record);
    this.#schedule();
  }
}

type Writes = NonNullable<Extract<Outcome<ClientBase>, { readonly state: "done" }>["writes"]>;

/** After this time, the server ends a session whose process is frozen, so that its locks are released. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = ${LONGEST_WRITES}`;

/**
 * Ends an event with the user's writes in one transaction. The writes go first, so that a new event of the record waits
 * only for the last statement.
 *
 * @param unsure - the end may have been recorded before
 * @returns the row of `settle_events`; `undefined` where the lease was lost
 */
export async function settleWithWrites(
  session: Session,
  statements: Statements,
  claim: ClaimedEvent,
  outcome: Outcome<ClientBase> & { readonly writes: Writes },
  unsure: boolean,
): Promise<Row | undefined> {
  const stateOf = async (): Promise<string | null | undefined> => {
    const [row] = await session.query(statements.stateOfLease, [toText(claim.eventId), claim.lease]);
    return row?.lease;
  };
  await session.query(BEGIN);
  try {
    if ((await stateOf()) === "held") {
      await runWrites(session, outcome.writes);
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
  return session.query("ROLLBACK").then(
    () => new Undone("undone", { cause: error }),
    () => error,
  );
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
  await session.query("RELEASE SAVEPOINT stayhook_writes").catch((cause: unknown) => {
    const state = sqlState(cause);
    throw state === undefined ? cause : new InvalidWriteError(state === "25P02" ? FAILED : ENDED, { cause });
  });
}

const ENDED =
  "a write of event.atomically ended the transaction that it runs in: it must not BEGIN, COMMIT or ROLLBACK";
const FAILED =
  "a statement of event.atomically failed, but the write went on, so PostgreSQL rolls back the whole transaction. Let the error through, or put the statement behind a SAVEPOINT";
