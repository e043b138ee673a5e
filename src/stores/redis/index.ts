import * as z from "zod";
import { Log, type Logger } from "../../logger.ts";
import { check, logger, oneOf, option, optionsObject, timerFrom } from "../../options.ts";
import type { EventStore } from "../event-store.ts";
import { Connection, type RedisClient } from "./redis-connection.ts";

export type { RedisClient } from "./redis-connection.ts";

import { RedisStore } from "./redis-store.ts";

/** Options of {@link redisStore}. Either `url` or `client` is required. */
export interface RedisStoreOptions {
  /** `redis://[user:password@]host[:port][/database]`, the same with `rediss://` for TLS, or the path of a socket. */
  readonly url?: string | undefined;
  /**
   * Your own `ioredis` client: a `Redis` (with or without Sentinel) or a `Cluster`. Its `keyPrefix` precedes `prefix`
   * in all keys. `store.close()` leaves the client open. The store duplicates the client once, to get messages from
   * other processes.
   */
  readonly client?: RedisClient | undefined;
  /** The prefix of all keys. The store adds braces, which put all keys in one hash slot. Default `stayhook`. */
  readonly prefix?: string | undefined;
  /** How long a call waits for Redis before it rejects: ms, or a text such as `"5s"`. Default 5000. */
  readonly commandTimeout?: number | string | undefined;
  /**
   * Gets a warning for each Redis setting that risks a loss of events, at the first use, and an error for each event whose
   * key is gone. Default: the console.
   */
  readonly logger?: Logger | undefined;
  /**
   * Whether the first call creates and upgrades the keys. Default `true`. With `false`, calls reject if the keys are
   * missing or too old, until a process without `migrate: false` has created or upgraded them.
   */
  readonly migrate?: boolean | undefined;
}

/**
 * Keeps events in Redis. Processes on many machines can share the work. Needs the package `ioredis` (5 or 6).
 *
 * **The settings of Redis decide which events survive a crash.** docs/stores/redis.md lists the risk of each setting.
 * Redis needs `appendonly yes` and `maxmemory-policy noeviction`. The first call of a method connects to Redis, and
 * warns of risky settings.
 *
 * @throws InvalidArgumentError if an option is invalid. The store's methods reject with StayhookError if `ioredis` is
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
  const { url, prefix, commandTimeout, logger: log, migrate } = check(() => schema(client), options);
  const connection = new Connection(client ?? url!, `{${prefix}}`, commandTimeout);
  const lines = new Log(log);
  return new RedisStore(connection, {
    onFirstUse: () => void checkSettings(connection, lines),
    risks: () => risksOf(connection),
    onGone: (eventId) =>
      lines.error(
        `redisStore (${connection.name}): the key of event ${eventId} is gone. Somebody deleted it, or Redis evicted it because its memory is full. The event is lost, and the other events of its record go on. Set maxmemory-policy to noeviction, and run a pass of the reconciler`,
        { eventId },
      ),
    migrates: migrate,
  });
}

function schema(client: RedisClient | undefined) {
  const either = "redisStore takes exactly one of `url` and `client`";
  const badUrl =
    "must be a redis:// or rediss:// URL, or the path of a socket. Write a % in the password as %25";
  const url = option<string>((given) => {
    if (given === undefined) return either;
    return isUrl(given) ? undefined : badUrl;
  });
  const badPrefix = "must be a string of 1 to 200 characters, without braces, spaces or control characters";
  return optionsObject(
    {
      url: client === undefined ? url : z.undefined({ error: either }).optional(),
      client: option<RedisClient>(problemWithClient).optional(),
      // The store adds braces around the prefix. Braces inside the prefix would change the hash slot.
      prefix: z
        .string(badPrefix)
        .regex(/^[^{}\p{C}\s]{1,200}$/u, badPrefix)
        .default("stayhook"),
      commandTimeout: timerFrom(5000),
      logger: logger().optional(),
      migrate: oneOf(true, false).default(true),
    },
    { notObject: "redisStore takes an object with a url or a client" },
  );
}

function problemWithClient(client: unknown): string | undefined {
  const { evalsha, duplicate, options } = Object(client) as RedisClient;
  if (typeof evalsha !== "function" || typeof duplicate !== "function")
    return "must be a Redis or Cluster object from ioredis";
  const { keyPrefix = "" } = Object(options) as { readonly keyPrefix?: unknown };
  return typeof keyPrefix === "string" && !keyPrefix.includes("{")
    ? undefined
    : "must have a keyPrefix without braces";
}

function isUrl(url: unknown): boolean {
  if (typeof url !== "string") return false;
  if (url.startsWith("/")) return true;
  if (!URL.canParse(url)) return false;
  const { protocol, username, password } = new URL(url);
  return /^rediss?:$/.test(protocol) && isEncoded(username) && isEncoded(password);
}

/** Whether the text is percent-encoded correctly. A literal `%` in a password must be written `%25`. */
function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Warns of each risky Redis setting. Does not throw, because some providers block INFO or CONFIG GET. */
async function checkSettings(connection: Connection, log: Log): Promise<void> {
  try {
    for (const loss of await risksOf(connection)) log.warn(`redisStore (${connection.name}): ${loss}`);
  } catch {
    log.debug(
      `redisStore (${connection.name}): the store could not read the settings of Redis, so it cannot warn of settings that risk data loss`,
    );
  }
}

/** Returns what each risky Redis setting can lose, and whether the client fits the server. */
async function risksOf(connection: Connection): Promise<readonly string[]> {
  const info = new Map(parseInfo(await connection.ask((client) => client.info())));
  const setting = (name: string) => connection.ask((client) => client.config("GET", name)).catch(() => []);
  const [fsync, save] = await Promise.all([setting("appendfsync"), setting("save")]);
  const told = [...lossesBy(new Map([...info, ...pairs(fsync), ...pairs(save)]))];
  if (info.get("cluster_enabled") === "1" && connection.isPlain)
    told.push(
      "The server is a node of a Redis cluster, and the client knows only this node. When the keys move to another node, all calls fail. Pass a Cluster of ioredis as the option client.",
    );
  return told;
}

function* lossesBy(settings: ReadonlyMap<string, string>): Generator<string> {
  const policy = settings.get("maxmemory_policy");
  if (policy?.startsWith("allkeys-")) {
    yield `maxmemory-policy is set to ${policy}. When the memory is full, Redis deletes events, even events that wait to be handled. Set maxmemory-policy to noeviction.`;
  }
  const appendOnly = settings.get("aof_enabled");
  const fsync = settings.get("appendfsync");
  if (appendOnly === "0") {
    yield settings.get("save") === ""
      ? "appendonly is set to no, and Redis takes no snapshots. If Redis stops, every event is lost. Set appendonly to yes."
      : "appendonly is set to no. If Redis stops, all events since its last snapshot are lost. Set appendonly to yes.";
  } else if (appendOnly !== undefined && fsync === "everysec") {
    yield "appendfsync is set to everysec. If the machine of Redis crashes, Redis loses the events of up to two seconds. To lose no events, set appendfsync to always.";
  } else if (appendOnly !== undefined && fsync === "no") {
    yield "appendfsync is set to no. If the machine of Redis crashes, Redis loses the events of half a minute or more. Set appendfsync to always, or at least to everysec.";
  }
}

function parseInfo(info: string): [string, string][] {
  return info.split(/\r?\n/).flatMap((line) => {
    const colon = line.indexOf(":");
    return colon < 0 || line.startsWith("#") ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
  });
}

/** Reads the reply of CONFIG GET: a list of names and values, or a map in newer protocols. */
function pairs(reply: unknown): [string, string][] {
  if (!Array.isArray(reply)) return Object.entries((reply ?? {}) as Record<string, string>);
  return Array.from({ length: reply.length / 2 }, (_, index) => [reply[2 * index], reply[2 * index + 1]]);
}
