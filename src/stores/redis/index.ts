import * as z from "zod";
import { MAX_TIMER } from "../../async.ts";
import { Log, type Logger } from "../../logger.ts";
import { check, logger, numberFrom, option, optionsObject } from "../../options.ts";
import type { EventStore } from "../event-store.ts";
import { ClientLink, type RedisClient, UrlLink } from "./redis-client.ts";
import { Connection } from "./redis-connection.ts";
import { RedisStore } from "./redis-store.ts";

/** Options of {@link redisStore}. One of `url` and `client` is required. */
export interface RedisStoreOptions {
  /** `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, or the path of a socket. */
  readonly url?: string | undefined;
  /**
   * Your own client of `ioredis` instead: `Redis` (with or without Sentinel) or `Cluster`. `close()` leaves it open.
   * Its `keyPrefix` is kept. The store makes one more connection from it, for messages of other processes.
   */
  readonly client?: RedisClient | undefined;
  /** All keys begin with it, in braces, so that a cluster has them in one hash slot. Default `stayhook`. */
  readonly prefix?: string | undefined;
  /** A call rejects if Redis does not answer in this time, ms. Default 5000. */
  readonly commandTimeout?: number | undefined;
  /** Gets a warning at the first use if the settings of this Redis lose events. Default: the console. */
  readonly logger?: Logger | undefined;
}

/**
 * Keeps events in Redis, for many machines. Needs the package `ioredis` (5 or 6).
 *
 * **The settings of Redis decide what survives.** It needs `appendonly yes` and `maxmemory-policy noeviction`.
 * docs/stores/redis.md says which settings lose what. The store warns at its first use.
 *
 * The first call connects.
 *
 * @throws InvalidArgumentError if an option cannot be used. Calls reject with StayhookError if `ioredis` is
 *   not installed, or if Redis cannot be reached or returns an error
 *
 * @example
 * ```ts
 * import { redisStore } from "stayhook/redis";
 *
 * const webhooks = createWebhookHandler({ client, store: redisStore({ url: process.env.REDIS_URL }), on });
 * ```
 */
export function redisStore(options: RedisStoreOptions): EventStore {
  const { client } = Object(options) as RedisStoreOptions;
  const { url, prefix, commandTimeout, logger: log } = check(() => schema(client), options);
  const link = client === undefined ? new UrlLink(url!) : new ClientLink(client);
  const connection = new Connection(link, `{${prefix}}`, commandTimeout);
  return new RedisStore(connection, () => void checkSettings(connection, new Log(log)));
}

function schema(client: RedisClient | undefined) {
  const either = "give either url or client";
  const badUrl = "must be a redis:// or rediss:// URL, a % in its password as %25, or the path of a socket";
  const url = option<string>((given) => {
    if (given === undefined) return either;
    return isUrl(given) ? undefined : badUrl;
  });
  const badPrefix = "must be a string of 1 to 200 characters, without braces, spaces and control characters";
  return optionsObject(
    {
      url: client === undefined ? url : z.undefined({ error: either }).optional(),
      client: option<RedisClient>(problemWithClient).optional(),
      // Braces would change the hash slot.
      prefix: z
        .string(badPrefix)
        .regex(/^[^{}\p{C}\s]{1,200}$/u, badPrefix)
        .default("stayhook"),
      commandTimeout: numberFrom(Number.MIN_VALUE, MAX_TIMER, "must be a number of ms, more than 0").default(
        5000,
      ),
      logger: logger().optional(),
    },
    { notObject: "redisStore takes options, with url or client" },
  );
}

function problemWithClient(client: unknown): string | undefined {
  const { evalsha, duplicate, options } = Object(client) as RedisClient;
  if (typeof evalsha !== "function" || typeof duplicate !== "function")
    return "must be a Redis or a Cluster of ioredis";
  const { keyPrefix = "" } = Object(options) as { readonly keyPrefix?: unknown };
  return typeof keyPrefix === "string" && !keyPrefix.includes("{")
    ? undefined
    : "its keyPrefix must be a string without braces";
}

function isUrl(url: unknown): boolean {
  if (typeof url !== "string") return false;
  if (url.startsWith("/")) return true;
  if (!URL.canParse(url)) return false;
  const { protocol, username, password } = new URL(url);
  return /^rediss?:$/.test(protocol) && isEncoded(username) && isEncoded(password);
}

/** A literal `%` in a password must be written `%25`. */
function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Warns of settings by which this Redis loses events that were answered 200. Some providers block both commands. */
async function checkSettings({ link, timeout }: Connection, log: Log): Promise<void> {
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
