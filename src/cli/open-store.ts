import { existsSync } from "node:fs";
import { StayhookError } from "../errors.ts";
import { silentLogger } from "../logger.ts";
import type { EventStore } from "../stores/store.ts";
import type { Invocation, Option } from "./command.ts";
import { MissingError, UsageError } from "./exit-code.ts";

export const storeOptions: Readonly<Record<string, Option>> = {
  store: {
    type: "string",
    value: "<where>",
    help: "SQLite file, postgres:// URL or redis:// URL; default: STAYHOOK_STORE",
  },
  schema: { type: "string", value: "<name>", help: "of PostgreSQL; default: stayhook" },
  prefix: { type: "string", value: "<prefix>", help: "of Redis; default: stayhook" },
};

/**
 * Runs `use` with the store that the user named, and closes it. Only the engine that it is on gets loaded.
 *
 * @throws UsageError where none is named; MissingError where the file is not there: a typo must not make a new one
 */
export async function withStore<T>(
  invocation: Invocation,
  use: (store: EventStore<unknown>) => Promise<T>,
): Promise<T> {
  const store = await open(invocation);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

async function open(invocation: Invocation): Promise<EventStore<unknown>> {
  const { text, io, out } = invocation;
  const given = text("store");
  const where = given ?? io.env.STAYHOOK_STORE;
  if (!where) throw new UsageError("say where the events are: --store, or STAYHOOK_STORE");
  if (given !== undefined && hasPassword(given))
    out.warn("others on this machine can read the password in --store; STAYHOOK_STORE is not shown to them");
  const scheme = /^(\w+):\/\//.exec(where)?.[1]?.toLowerCase();
  switch (scheme) {
    case "postgres":
    case "postgresql": {
      const { postgresStore } = await import("../stores/postgres/index.ts");
      return postgresStore({ connectionString: where, schema: text("schema") });
    }
    case "redis":
    case "rediss": {
      const { redisStore } = await import("../stores/redis/index.ts");
      // What its settings would lose is said where the app runs.
      return redisStore({ url: where, prefix: text("prefix"), logger: silentLogger });
    }
    case undefined:
      return openFile(where);
    default:
      throw new UsageError("--store must be an SQLite file, a postgres:// URL or a redis:// URL");
  }
}

async function openFile(path: string): Promise<EventStore<unknown>> {
  if (!existsSync(path)) throw new MissingError(`there is no file ${path}`);
  try {
    const { sqliteStore } = await import("../stores/sqlite/index.ts");
    return sqliteStore(path) as EventStore<unknown>;
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_UNKNOWN_BUILTIN_MODULE")
      throw new StayhookError("this runtime has no node:sqlite; Node has it from 22.13 on", { cause: error });
    throw error;
  }
}

function hasPassword(where: string): boolean {
  return URL.canParse(where) && new URL(where).password !== "";
}
