// Not the globals: what Redis does goes by no fake clock.
import { clearTimeout, setTimeout } from "node:timers";
import { StayhookError } from "../../errors.ts";
import { failed, hasCode } from "./errors.ts";
import type { Link } from "./link.ts";
import type { RedisClient } from "./load.ts";
import { type ScriptName, scripts } from "./scripts.ts";
import type { Session } from "./session.ts";

/** Runs scripts, each within a time. */
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

  /** Does `call`, for whose end {@link idle} waits. */
  async busy<T>(call: () => Promise<T>): Promise<T> {
    const running = call();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Resolves when all that was asked for has ended. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running);
  }

  close(): void {
    this.link.close();
  }

  /**
   * @throws {@link NotSentError} where nothing was sent
   * @throws {@link StayhookError} where it failed, or may have been done though no answer came
   */
  async run(name: ScriptName, args: readonly string[]): Promise<unknown> {
    const until = performance.now() + this.timeout;
    const session = await this.link.ready(this.timeout);
    try {
      return await this.#inTime(session, until, this.#evaluate(session.client, name, args));
    } catch (error) {
      throw failed(this.link, error);
    }
  }

  async #evaluate(client: RedisClient, name: ScriptName, args: readonly string[]): Promise<unknown> {
    const { sha, text } = scripts[name];
    try {
      return await client.evalsha(sha, 1, this.#keys, ...args);
    } catch (error) {
      if (!hasCode(error, "NOSCRIPT")) throw error;
      // It has never seen it, or was started again since.
      return await client.eval(text, 1, this.#keys, ...args);
    }
  }

  /** The timer is what keeps a process alive that waits for an answer. */
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
      // A client that sends again what was on its way does not tell whether it was done twice.
      const forget = session.onLost(() => {
        stop();
        reject(new Error("the connection was lost before the answer came"));
      });
      answer.finally(stop).then(resolve, reject);
    });
  }
}
