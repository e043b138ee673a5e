// Use imported timers: a test's fake timers replace the globals, and would stop the store.
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

/** SQLSTATEs of serialization failures and deadlocks. PostgreSQL has rolled back, so the store retries at once. */
const TRY_AGAIN = ["40001", "40P01"];
/** The maximum number of tries of a transaction that conflicts with another transaction. */
const TRIES = 4;
/** The time between two releases of unanswered claims, ms. PostgreSQL may run a claim after the first release. */
const AGAIN = 1000;
/** How many unanswered claims the store remembers. Unanswered calls of `settle` have the same limit. */
const MOST = 10_000;

export interface CommandsOptions {
  readonly statements: Statements;
  /** Creates or upgrades the schema. */
  migrate(session: Session): Promise<void>;
  assertOpen(): void;
  /** Wakes all processes, because an event became due. */
  madeDue(): void;
}

/** Runs commands. Creates the schema before the first command. Releases the events of claims that got no answer. */
export class Commands {
  readonly lost = new Lost();
  readonly #connections: Connections;
  readonly #options: CommandsOptions;
  #ready: Promise<void> | undefined;

  constructor(connections: Connections, options: CommandsOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  /** @param doing - what failed, for the error message, such as "events could not be read" */
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

  /** Runs a claim. If no answer arrives, a later command releases the events of the claim. */
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

  /** Releases the events of unanswered claims. No process got these events, so the attempts do not count. */
  async #giveBack(): Promise<void> {
    const tokens = this.lost.claims();
    if (tokens.length === 0) return;
    // Ignore an error, because a later call tries again.
    const rows = await this.#connections.query(this.#options.statements.giveBack, [tokens]).catch(() => []);
    this.lost.released(rows.map(({ token }) => token as string));
    if (rows.length > 0) this.#options.madeDue();
  }

  async #migrate(): Promise<void> {
    try {
      await this.#connections.use((session) => this.#options.migrate(session));
    } catch (error) {
      // Let the next call try again.
      this.#ready = undefined;
      throw error;
    }
  }
}

/** Retries a command if PostgreSQL rolled it back after a conflict. Retries once if the server was read-only. */
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

/** Remembers unanswered calls of `claim` and `settle`. The server may have run them, or may run them later. */
class Lost {
  readonly #claims = new Map<string, number>();
  readonly #settlings = new Set<string>();
  #askedAt = Number.NEGATIVE_INFINITY;

  /** Remembers an unanswered claim for `leaseDuration` ms. Later, its leases have expired and need no release. */
  claim(token: string, leaseDuration: number): void {
    this.#claims.set(token, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
    this.#askedAt = Number.NEGATIVE_INFINITY;
  }

  /** Returns the tokens of unanswered claims: at most once per {@link AGAIN} ms, and after each newly lost claim. */
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

/** The maximum number of events in one statement, and the maximum length of their texts, in characters. */
const MOST_EVENTS = 256;
const MOST_TEXT = 1_000_000;
/** How many statements a `Groups` runs at a time. A statement no longer counts after {@link SLOW} ms. */
const AT_ONCE = 2;
/** After this time, a statement probably waits for a lock, ms. */
const SLOW = 50;

/** How long a statement waits for a locked record: `alone` if it has only one record, and otherwise `together`. */
export const PATIENCE = { together: "250ms", alone: "5s" } as const;

type Send<P, A> = (parts: readonly P[], patience: string) => Promise<readonly A[]>;

interface Job<P, A> {
  readonly part: P;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends calls of `add` or `settle` in batches. Each call is a part of a statement. Parts that arrive while a
 * statement runs share the next statement and its commit. If PostgreSQL rejects a statement, the store sends the
 * parts of each record in a separate statement. A record is in only one running statement, so one locked record
 * cannot block all connections.
 */
export class Groups<P extends Part, A> {
  readonly #send: Send<P, A>;
  readonly #oncePerRecord: boolean;
  readonly #running = new Set<Promise<void>>();
  readonly #underWay = new Set<string>();
  #queue: Job<P, A>[] = [];
  /** The jobs of each running statement that counts toward {@link AT_ONCE}. */
  readonly #counted = new Set<readonly Job<P, A>[]>();
  #scheduled = false;

  /**
   * @param send - sends the parts in one statement. PostgreSQL commits all parts or none
   * @param oncePerRecord - `true` if a statement may have only one part of each record
   */
  constructor(send: Send<P, A>, oncePerRecord: boolean) {
    this.#send = send;
    this.#oncePerRecord = oncePerRecord;
  }

  /** Queues a part for a later statement. Resolves to the answer for this part. */
  add(part: P): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ part, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when no part is queued or in flight. */
  async idle(): Promise<void> {
    while (this.#queue.length > 0 || this.#running.size > 0) {
      await Promise.all(this.#running);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#counted.size >= AT_ONCE || this.#queue.length === 0) return;
    this.#scheduled = true;
    // Let Node read its sockets first, so that requests that have already arrived share the statement.
    setImmediate(() => {
      this.#scheduled = false;
      const jobs = this.#take();
      // Every queued part waits for a running statement of its record. `#ended` schedules the part afterwards.
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

  /** Sends the parts of one record. If PostgreSQL rejects the statement, sends each part in its own statement. */
  async #ofOne(jobs: readonly Job<P, A>[]): Promise<void> {
    const error = await this.#try(jobs, PATIENCE.alone);
    if (error === undefined) this.#ended(jobs);
    else if (jobs.length === 1 || sqlState(error) === LOCKED || lostConnection(error))
      this.#reject(jobs, error);
    else for (const job of jobs) await this.#ofOne([job]);
  }

  /** @returns the error of the statement, or `undefined` if the statement succeeded */
  async #try(jobs: readonly Job<P, A>[], patience: string): Promise<unknown> {
    try {
      const parts = jobs.map(({ part }) => part);
      const answers = await this.#send(parts, patience);
      for (const [index, { resolve }] of jobs.entries()) resolve(answers[index] as A);
      return undefined;
    } catch (error) {
      return error ?? new Error("the driver rejected the statement, but gave no error");
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

/** Starts a transaction. If this process freezes, the server ends the transaction after {@link LONGEST_WRITES} ms. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = ${LONGEST_WRITES}`;

/**
 * Calls the functions passed to `event.atomically`, and settles the event in the same transaction. `settle_events`
 * comes last, because it locks the record. New events of the record wait for this lock, so it must be short.
 *
 * @param unsure - `true` if an earlier call of `settle` got no answer and may have ended the event
 * @returns the row of `settle_events`, or `undefined` if the lease was lost
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
      // Pass `false` for `unsure`: if an earlier call has ended the event, these writes must be rolled back.
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

/** Rolls back, unless the connection is lost. Returns the error to throw. */
async function undo(session: Session, error: unknown): Promise<unknown> {
  if (!(error instanceof WriteFailed) && lostConnection(error)) return error;
  return session.query("ROLLBACK").then(
    () => new Undone("undone", { cause: error }),
    () => error,
  );
}

/**
 * Calls the functions passed to `event.atomically` inside the open transaction of `session`.
 *
 * @throws WriteFailed if a function throws, or `InvalidWriteError` if a function leaves the transaction unusable
 */
async function runWrites(session: Session, writes: Writes): Promise<void> {
  await session.query("SAVEPOINT stayhook_writes");
  await writeWithinTime(async () => {
    try {
      for (const write of writes) await write(session.client);
    } catch (cause) {
      // The connection failed, not the user's write. So throw a plain error instead of `WriteFailed`: the queue then
      // calls `settle` again.
      if (session.isLost() || serverGone(cause) || hasTimedOut(cause))
        throw new Error("the connection failed while a function passed to event.atomically ran", { cause });
      throw new WriteFailed(cause);
    }
  });
  await session.query("RELEASE SAVEPOINT stayhook_writes").catch((cause: unknown) => {
    const state = sqlState(cause);
    throw state === undefined ? cause : new InvalidWriteError(state === "25P02" ? FAILED : ENDED, { cause });
  });
}

const ENDED =
  "A function passed to event.atomically ended the store's transaction. Such a function must not run BEGIN, COMMIT or ROLLBACK.";
const FAILED =
  "A statement in a function passed to event.atomically failed, and the function ignored the error. PostgreSQL therefore rolls back the whole transaction. In the function, throw the error again, or run the statement after a SAVEPOINT.";
