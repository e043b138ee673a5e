import { randomBytes } from "node:crypto";
// Use imported timers: a test's fake timers replace the globals, and would stop the store.
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

  /** Runs `call`. {@link idle} waits until `call` has ended. */
  async busy<T>(call: () => Promise<T>): Promise<T> {
    const running = call();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Whether a call of {@link busy} has not ended. */
  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  /** Resolves when all calls have ended. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running);
  }

  close(): void {
    this.link.close();
  }

  /**
   * @throws NotSentError if the command was not sent
   * @throws StayhookError if the script failed, or if no answer came. Without an answer, Redis may have run the script
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
      // Redis does not have the script, for example after a restart. Send the script's text.
      return await client.eval(text, 1, this.#keys, ...args);
    }
  }

  /** Rejects after the timeout, or if the connection is lost. The timer keeps the process alive during the call. */
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
      // Reject as soon as the connection is lost. Otherwise a user's client could send the command a second time, and
      // the store would not notice.
      const forget = session.onLost(() => {
        stop();
        reject(new Error("the connection was lost before the answer came"));
      });
      answer.finally(stop).then(resolve, reject);
    });
  }
}

/** How many unanswered calls of `settle` the store remembers. Unanswered claims have the same limit. */
const MOST = 1000;

/**
 * Keys of unanswered calls. Redis may have run such a call, or may run it later. If the queue repeats a call of
 * `settle`, the new call has the key of the first call, so that Redis recognizes the repetition. The next claim
 * releases the leases of unanswered claims.
 */
export class IdempotencyKeys {
  readonly #settling = new Map<string, { readonly outcome: string; readonly key: string }>();
  readonly #claims = new Map<string, number>();

  /**
   * Returns the key of a `settle` call. Until Redis answers, calls with an equal lease and outcome get the same key.
   */
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

  /** Remembers an unanswered claim. Redis may run the claim later. */
  claimLost(key: string, leaseDuration: number): void {
    this.#claims.set(key, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
  }

  /** Returns the keys of unanswered claims. Forgets each claim `leaseDuration` ms after it was lost. */
  lostClaims(): string[] {
    for (const [key, until] of this.#claims) if (until < performance.now()) this.#claims.delete(key);
    return [...this.#claims.keys()];
  }
}

function forgetOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (map.size > MOST && oldest !== undefined) map.delete(oldest);
}

/** The first and the longest wait between two attempts to connect, ms. */
const FIRST_WAIT = 50;
const LONGEST_WAIT = 2000;
/** The timeout of an attempt to connect, and of a command on that connection, ms. */
const PATIENCE = 10_000;
/** The time between two pings, ms. A ping detects a connection that a router has dropped silently. */
const BEAT = 30_000;

export interface NotifierOptions {
  readonly channel: () => Promise<string>;
  /** Whether `handle` belongs to this store instance. The notifier ignores the instance's own messages. */
  readonly isOurs: (handle: string) => boolean;
  readonly wake: () => void;
}

/**
 * Listens on a separate connection, and calls `wake` for each message from another store instance. Also calls `wake`
 * after each connect, because messages may have been lost. Does not keep the process alive.
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

  /** Listens until the store is closed. Replaces a connection that is lost. */
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
        // Ignore the error: if Redis is down, the store's own calls reject.
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

  /** Pings the server until the session has ended. */
  async #lives(session: Session): Promise<void> {
    const { client } = session;
    const beat = setInterval(async () => {
      // A Cluster replaces its connection silently, so messages may be lost. Wake the subscribers at each beat.
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

/** Resolves to `true` if `answer` resolves within {@link PATIENCE} ms, and otherwise to `false`. */
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
