// Use imported timers: a test's fake timers replace the globals, and would stop the timeouts.
import { clearTimeout, setTimeout } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import { withTimeout } from "../async.ts";
import { InvalidWriteError } from "../errors.ts";
import type { SqlWrites } from "./sql/driver.ts";

/** The time limit for all `event.atomically` functions of one event, ms. They hold a connection of the pool. */
export const LONGEST_WRITES = 60_000;

/** Thrown if a function passed to `event.atomically` throws. The error of this function is the `cause`. */
export class WriteFailed extends Error {
  constructor(cause: unknown) {
    super("a function passed to event.atomically threw an error", { cause });
  }
}

/**
 * Thrown if the connection ended while the functions passed to `event.atomically` had their transaction. The error that
 * showed it is the `cause`.
 */
export class WritesInterrupted extends Error {
  constructor(cause: unknown) {
    super("the connection ended while a function passed to event.atomically ran", { cause });
  }
}

/**
 * Runs the functions passed to `event.atomically`. Whatever the error of a function is, the function has failed, unless
 * the connection turns out to have ended: no code of an error says that.
 *
 * @throws WriteFailed if a function throws; `InvalidWriteError` as {@link writeWithinTime}
 */
export function runWrites<C extends object>(connection: C, writes: SqlWrites["writes"]): Promise<void> {
  return writeWithinTime(connection, async (tx) => {
    for (const write of writes) {
      try {
        await write(tx as never);
      } catch (cause) {
        throw new WriteFailed(cause);
      }
    }
  });
}

/** Returns the next step for an error of DNS. */
export function networkHint(error: unknown): string {
  return (error as { readonly code?: unknown } | null | undefined)?.code === "EAI_AGAIN"
    ? ". DNS is not ready yet. Try again in a moment. If the error stays, check the DNS server of this machine or container"
    : "";
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
    return new Error(`the pool gave no connection within ${Math.round(ms)} ms`);
  });
}

/** How long the connections of a store's own pool may take to end, ms. */
const END_WITHIN = 1000;

/** Ends a pool. Without a network, nobody answers the end of a connection, so those that are left are destroyed. */
export async function endPool(
  pool: { end(): Promise<void> },
  left: () => readonly ({ destroy(): void } | undefined)[],
): Promise<void> {
  const ending = pool.end().then(
    () => true,
    () => false,
  );
  if ((await withTimeout(END_WITHIN, ending)) !== true) for (const each of left()) each?.destroy();
}

/** Counts openings and deaths of connections, so that two of them can be compared. */
let moments = 0;
/** The moment when a pool opened a connection. */
const openedAt = new WeakMap<object, number>();
/** The pools that tell this file of their connections. Each has one listener, even if many stores use it. */
const listenedTo = new WeakSet<object>();

/**
 * Notes from now on when the pool opens a connection.
 *
 * @param event - the pool's event, which has the connection
 * @returns the pool
 */
export function dating<P extends { on(event: string, listener: (connection: object) => void): unknown }>(
  pool: P,
  event: string,
): P {
  if (!listenedTo.has(pool)) {
    listenedTo.add(pool);
    pool.on(event, (connection) => void openedAt.set(connection, ++moments));
  }
  return pool;
}

/** A pool, as the {@link Lender} needs it. */
export interface Lent<C> {
  /** Asks a pool of {@link dating} for a connection. */
  connect(): Promise<C>;
  /** Returns the connection as the pool's event has it. */
  identityOf(connection: C): object;
  /** Ends the connection, so that the pool opens another one. */
  end(connection: C): void;
  /** Whether the pool or its server has no free connection. */
  isFull(error: unknown): boolean;
  /** Returns the error with the next step, if it is known. */
  explain?(error: unknown): Promise<unknown>;
  /** Frees what this process does not need, because another one may have no connection at all. */
  makeRoom?(): Promise<void>;
}

/**
 * Borrows connections that are younger than the last death of one. An older one may lead to a server that is no primary
 * any longer, or the network has dropped it, too. So does one that the user's pool opened before the store got the pool.
 */
export class Lender<C extends { release(): void }> {
  /** The moment when a connection last died, or its server refused all writes. */
  diedAt = 0;
  readonly #pool: Lent<C>;

  constructor(pool: Lent<C>) {
    this.#pool = pool;
  }

  /** Notes that a connection has died, or that its server refuses all writes. */
  died(): void {
    this.diedAt = ++moments;
  }

  /** Waits at most `ms` for a connection. If the server allows no more, one that is open becomes free. */
  async lend(ms: number): Promise<C> {
    const deadline = performance.now() + ms;
    for (let wait = 10; ; wait = Math.min(wait * 2, 200)) {
      try {
        const left = Math.max(1, deadline - performance.now());
        const connection = await connectWithin(left, this.#pool.connect());
        if ((openedAt.get(this.#pool.identityOf(connection)) ?? 0) >= this.diedAt) return connection;
        this.#pool.end(connection);
      } catch (error) {
        if (!this.#pool.isFull(error) || performance.now() + wait > deadline)
          throw (await this.#pool.explain?.(error)) ?? error;
        await this.#pool.makeRoom?.();
        await sleep(wait);
      }
    }
  }
}

/**
 * Calls `run` with a connection for the functions passed to `event.atomically`. The connection's `release` does nothing,
 * because some ORMs call it after each query, and the store's transaction still needs the connection. When `run` has
 * ended, the connection throws, because a late statement would run in another transaction.
 *
 * @throws `InvalidWriteError` if `run` takes longer than {@link LONGEST_WRITES} ms
 */
export async function writeWithinTime<C extends object>(
  connection: C,
  run: (tx: C) => Promise<void>,
): Promise<void> {
  let isOver = false;
  const tx = new Proxy(connection, {
    get(target, name) {
      if (name === "release") return () => {};
      if (isOver) throw new InvalidWriteError(LATE);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const message = `The functions passed to event.atomically took longer than ${LONGEST_WRITES} ms. Do slow work before you call event.atomically.`;
  try {
    await within(LONGEST_WRITES, run(tx), () => new InvalidWriteError(message));
  } finally {
    isOver = true;
  }
}

const LATE =
  "The connection of event.atomically was used after its function had ended. Await every query in the function, and do not keep the connection.";

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
