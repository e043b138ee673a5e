import { randomBytes } from "node:crypto";
// Not the globals: a test's fake timers must not stop Redis.
import { clearInterval, clearTimeout, setInterval, setTimeout } from "node:timers";
import { StayhookError } from "../../errors.ts";
import {
  failed,
  hasCode,
  isCluster,
  isNotPrimary,
  type Link,
  type RedisClient,
  type Session,
} from "./redis-client.ts";
import { type ScriptName, scripts } from "./redis-scripts.ts";

/** Runs scripts, each within {@link timeout} ms. */
export class Connection {
  readonly link: Link;
  readonly #keys: string;
  readonly timeout: number;
  readonly #running = new Set<Promise<unknown>>();

  constructor(link: Link, keys: string, timeout: number) {
    this.link = link;
    this.#keys = keys;
    this.timeout = timeout;
  }

  /** Runs `call`. {@link idle} waits for it. */
  async busy<T>(call: () => Promise<T>): Promise<T> {
    const running = call();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Resolves when all calls have ended. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running);
  }

  close(): void {
    this.link.close();
  }

  /**
   * @throws NotSentError where nothing was sent
   * @throws StayhookError where the script failed, or where no answer came; Redis may have run it then
   */
  async run(name: ScriptName, args: readonly string[]): Promise<unknown> {
    const until = performance.now() + this.timeout;
    const session = await this.link.ready(this.timeout);
    session.gather();
    try {
      return await this.#inTime(session, until, this.#evaluate(session.client, name, args));
    } catch (error) {
      if (isNotPrimary(error)) this.link.movedAway(session);
      throw failed(this.link, error);
    }
  }

  async #evaluate(client: RedisClient, name: ScriptName, args: readonly string[]): Promise<unknown> {
    const { sha, text } = scripts[name];
    try {
      return await client.evalsha(sha, 1, this.#keys, ...args);
    } catch (error) {
      if (!hasCode(error, "NOSCRIPT")) throw error;
      // Redis has not seen this script since its start.
      return await client.eval(text, 1, this.#keys, ...args);
    }
  }

  /** Rejects if the answer takes too long. The timer keeps the process alive while a call waits. */
  #inTime(session: Session, until: number, answer: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        clearTimeout(timer);
        forget();
      };
      const late = (): void => {
        stop();
        const { name } = this.link;
        reject(new StayhookError(`redisStore (${name}): Redis did not answer within ${this.timeout} ms`));
        this.link.gaveUpOn(session);
      };
      const timer = setTimeout(late, Math.max(0, until - performance.now()));
      // A client that sends commands again does not say whether Redis ran them twice.
      const forget = session.onLost(() => {
        stop();
        reject(new Error("the connection was lost before the answer came"));
      });
      answer.finally(stop).then(resolve, reject);
    });
  }
}

/** How many calls are remembered at most. */
const MOST = 1000;

/**
 * Keys of calls that got no answer. Redis may have done them, or may still do them. A repeated settle has the key of
 * the first one, so that Redis knows it as the same. The next claim gives back the leases of a claim without an answer.
 */
export class IdempotencyKeys {
  readonly #settling = new Map<string, { readonly outcome: string; readonly key: string }>();
  readonly #claims = new Map<string, number>();

  /** The key of this settle: the same for a lease and an outcome, until an answer came. */
  keyOf(lease: string, outcome: string): string {
    const known = this.#settling.get(lease);
    if (known?.outcome === outcome) return known.key;
    const key = randomBytes(8).toString("base64url");
    this.#settling.set(lease, { outcome, key });
    forgetOldest(this.#settling);
    return key;
  }

  answered(lease: string): void {
    this.#settling.delete(lease);
  }

  /** Remembers a claim without an answer. It may still be on its way to Redis. */
  claimLost(key: string, leaseDuration: number): void {
    this.#claims.set(key, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
  }

  /** Keys of claims whose leases may not have ended yet. */
  lostClaims(): string[] {
    for (const [key, until] of this.#claims) if (until < performance.now()) this.#claims.delete(key);
    return [...this.#claims.keys()];
  }
}

function forgetOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (map.size > MOST && oldest !== undefined) map.delete(oldest);
}

/** ms between two tries to connect: the first and the longest wait. */
const FIRST_WAIT = 50;
const LONGEST_WAIT = 2000;
/** ms for a connection, or for an answer on it. */
const PATIENCE = 10_000;
/** ms between two pings. A router drops an idle connection without telling either side. */
const BEAT = 30_000;

/** The options of a {@link Notifier}. */
export interface NotifierOptions {
  readonly channel: () => Promise<string>;
  /** Our own messages are no news. */
  readonly isOurs: (handle: string) => boolean;
  readonly wake: () => void;
}

/**
 * Listens to the messages of other handles, on a connection of its own, and calls `wake`. It also calls `wake` after
 * each connect, because messages may have been missed. It does not keep the process alive.
 */
export class Notifier {
  readonly #link: Link;
  readonly #options: NotifierOptions;
  #listening = false;
  #closed = false;
  #session: Session | undefined;

  constructor(link: Link, options: NotifierOptions) {
    this.#link = link;
    this.#options = options;
  }

  listen(): void {
    if (!this.#listening) void this.#listen();
  }

  close(): void {
    this.#closed = true;
    this.#session?.end();
  }

  /** Makes one connection after the other until the store is closed. */
  async #listen(): Promise<void> {
    this.#listening = true;
    for (let failures = 0; !this.#closed; failures += 1) {
      let session: Session | undefined;
      try {
        session = await this.#link.another();
        this.#session = session;
        if (await this.#subscribed(session)) {
          failures = 0;
          this.#options.wake();
          await this.#lives(session);
        }
      } catch {
        // The store's calls report what is wrong with Redis.
      } finally {
        session?.end();
      }
      if (this.#closed) return;
      await pause(Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures));
    }
  }

  async #subscribed(session: Session): Promise<boolean> {
    if (this.#closed) return false;
    const { client } = session;
    client.on("message", (_: string, handle: string) => {
      if (handle !== "" && !this.#options.isOurs(handle)) this.#options.wake();
    });
    client.connect().catch(() => {});
    const until = performance.now() + PATIENCE;
    if (!(await session.becomesReady(until, { holdsProcess: false }))) return false;
    return inTime(client.subscribe(await this.#options.channel()));
  }

  /** Resolves when the session has ended. */
  async #lives(session: Session): Promise<void> {
    const { client } = session;
    const beat = setInterval(async () => {
      // A Cluster replaces its connection silently, so messages may be lost.
      if (isCluster(client)) this.#options.wake();
      else if (!(await inTime(client.ping()))) session.end();
    }, BEAT).unref();
    await new Promise<void>((resolve) => {
      session.onLost(resolve);
      if (!session.isReady) resolve();
    });
    clearInterval(beat);
  }
}

/** Resolves to whether an answer came in time. */
async function inTime(answer: Promise<unknown>): Promise<boolean> {
  const answered = answer.then(
    () => true,
    () => false,
  );
  return Promise.race([answered, pause(PATIENCE).then(() => false)]);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
