import { existsSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { StayhookError } from "../errors.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { Invocation, Option } from "./command.ts";
import { MissingError, UsageError } from "./exit-code.ts";
import { assertPrefix, assertSchema } from "./never-used.ts";

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
 * Opens the store that the user named, runs `use` with it, and closes it. Loads no other store's driver.
 *
 * @throws UsageError where no store is named; MissingError where it does not exist, because a typo must not create one
 */
export async function withStore<T>(
  invocation: Invocation,
  use: (store: EventStore<unknown>) => Promise<T>,
  { seesToSignal = false }: { readonly seesToSignal?: boolean } = {},
): Promise<T> {
  const { signal } = invocation.io;
  let interrupt = () => {};
  const interrupted = new Promise<never>((_resolve, reject) => {
    interrupt = () => reject(signal.reason);
  });
  // A command that handles Ctrl-C itself still has to report.
  if (!seesToSignal) signal.addEventListener("abort", interrupt, { once: true });
  const used = open(invocation).then((store) => use(store).finally(() => store.close()));
  try {
    // On Ctrl-C, do not wait for a store that does not answer.
    return await Promise.race([used, interrupted]);
  } finally {
    signal.removeEventListener("abort", interrupt);
  }
}

async function open(invocation: Invocation): Promise<EventStore<unknown>> {
  const { text, io, out } = invocation;
  const given = text("store");
  const where = given ?? io.env.STAYHOOK_STORE;
  if (!where) throw new UsageError("name the store of the events with --store or STAYHOOK_STORE");
  if (given !== undefined && hasPassword(given))
    out.warn("others on this machine can read the password in --store; STAYHOOK_STORE is not shown to them");
  // One letter and a colon is a drive of Windows.
  const scheme = /^([a-z][\w+.-]+:(?:\/\/)?)/i.exec(where)?.[1]?.toLowerCase();
  switch (scheme) {
    case "postgres://":
    case "postgresql://": {
      const { postgresStore } = await import("../stores/postgres/index.ts");
      // The store checks its arguments before it connects.
      const store = postgresStore({ connectionString: where, schema: text("schema") });
      await assertSchema(where, text("schema"));
      return store;
    }
    case "redis://":
    case "rediss://": {
      const { redisStore } = await import("../stores/redis/index.ts");
      // The app itself logs the warnings about settings of Redis.
      const store = redisStore({ url: where, prefix: text("prefix"), logger: () => {} });
      await assertPrefix(where, text("prefix"));
      return store;
    }
    case undefined:
      return openFile(where);
    default:
      throw new UsageError("--store must be an SQLite file, a postgres:// URL or a redis:// URL");
  }
}

async function openFile(path: string): Promise<EventStore<unknown>> {
  if (!existsSync(path)) {
    // A mistyped connection string may hold a password.
    throw new MissingError(/[@=]/.test(path) ? "there is no such file" : `there is no file ${path}`);
  }
  try {
    const { DatabaseSync } = await import("node:sqlite");
    if (isForeign(path, DatabaseSync))
      throw new MissingError(`there are no events in ${path}: stayhook has never used it`);
    const { sqliteStore } = await import("../stores/sqlite/index.ts");
    return sqliteStore(path) as EventStore<unknown>;
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_UNKNOWN_BUILTIN_MODULE")
      throw new StayhookError("this runtime has no node:sqlite; use Node 22.13 or newer", { cause: error });
    throw error;
  }
}

/** Whether the file is a database without the store's tables. Does not create them. */
function isForeign(path: string, Database: typeof DatabaseSync): boolean {
  let database: DatabaseSync | undefined;
  try {
    database = new Database(path, { readOnly: true });
    const table = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'stayhook_events'").get();
    return table === undefined;
  } catch {
    // The store reports what is wrong with the file.
    return false;
  } finally {
    database?.close();
  }
}

function hasPassword(where: string): boolean {
  if (!URL.canParse(where)) return false;
  const { password, searchParams } = new URL(where);
  return password !== "" || searchParams.has("password");
}
