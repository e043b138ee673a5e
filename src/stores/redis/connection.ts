// Not the globals: a test's fake timers must not stop Redis.
import { clearTimeout, setTimeout } from "node:timers";
import { StayhookError } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import type { Link, RedisClient, Session } from "./link.ts";
import { failed, hasCode, isNotPrimary } from "./redis-errors.ts";
import { type ScriptName, scripts } from "./scripts.ts";

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

/** Warns of settings by which this Redis loses events that were answered 200. Some providers block both commands. */
export async function checkSettings({ link, timeout }: Connection, log: Log): Promise<void> {
  try {
    const { client } = await link.ready(timeout);
    const info = parseInfo(await client.info());
    const ask = (name: string) => client.config("GET", name).catch(() => []);
    const [fsync, save] = await Promise.all([ask("appendfsync"), ask("save")]);
    const settings = new Map([...info, ...pairs(fsync), ...pairs(save)]);
    for (const loss of lossesBy(settings)) log.warn(`redisStore (${link.name}): ${loss}`);
  } catch {
    log.debug(`redisStore (${link.name}): Redis does not say how it keeps its data`);
  }
}

function* lossesBy(settings: ReadonlyMap<string, string>): Generator<string> {
  const policy = settings.get("maxmemory_policy");
  if (policy?.startsWith("allkeys-")) {
    yield `maxmemory-policy is ${policy}. When its memory is full, Redis deletes events, waiting ones among them. Set maxmemory-policy to noeviction.`;
  }
  const appendOnly = settings.get("aof_enabled");
  const fsync = settings.get("appendfsync");
  if (appendOnly === "0") {
    yield settings.get("save") === ""
      ? "appendonly is no, and there are no snapshots. When Redis ends, every event is lost. Set appendonly to yes."
      : "appendonly is no. When Redis ends, all events since its last snapshot are lost. Set appendonly to yes.";
  } else if (appendOnly !== undefined && fsync === "everysec") {
    yield "appendfsync is everysec. When the machine of Redis crashes, up to two seconds of answered events are lost. Set appendfsync to always if that is too much.";
  } else if (appendOnly !== undefined && fsync === "no") {
    yield "appendfsync is no. When the machine of Redis crashes, half a minute of answered events or more is lost. Set appendfsync to always, or at least to everysec.";
  }
}

function parseInfo(info: string): [string, string][] {
  return info.split(/\r?\n/).flatMap((line) => {
    const colon = line.indexOf(":");
    return colon < 0 || line.startsWith("#") ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
  });
}

/** CONFIG GET answers with a list of names and values, or with a map in newer protocols. */
function pairs(reply: unknown): [string, string][] {
  if (!Array.isArray(reply)) return Object.entries((reply ?? {}) as Record<string, string>);
  return Array.from({ length: reply.length / 2 }, (_, index) => [reply[2 * index], reply[2 * index + 1]]);
}
