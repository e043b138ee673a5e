import { WriteFailed } from "../server-pool.ts";
import type { Connections, Row } from "./connections.ts";
import { isReadOnly, mayTryAgain, sqlState, storeError } from "./postgres-errors.ts";
import { migrate } from "./schema.ts";
import type { Statements } from "./statements.ts";

/** How often a transaction that conflicts with another one is tried. */
const TRIES = 4;
/** How often to look for the leases of an unanswered claim, ms. PostgreSQL may still run that claim. */
const AGAIN = 1000;
/** How many commands without an answer are remembered of each kind. */
const MOST = 10_000;

export interface CommandsOptions {
  readonly schema: string;
  readonly statements: Statements;
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
      await this.#connections.use((session) => migrate(session, this.#options.schema));
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
      const repeatable = mayTryAgain(error instanceof WriteFailed ? error.cause : error);
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
  if (memory.size <= MOST) return;
  for (const oldest of memory.keys()) {
    memory.delete(oldest);
    return;
  }
}
