// Opens the store that `--store` names.

import { once } from "node:events";
import { existsSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { StayhookError } from "../errors.ts";
import type { EventStore } from "../stores/event-store.ts";
import { isDriverProblem } from "../stores/load-driver.ts";
import type { StoreSchema } from "../stores/store-options.ts";
import { type Invocation, MissingError, type Options, UsageError } from "./command.ts";

/** The options that only one engine has. */
export const engineStoreOptions: Options = {
  schema: { value: "<name>", help: "PostgreSQL's schema; default: stayhook" },
  prefix: { value: "<prefix>", help: "Redis' key prefix; default: stayhook" },
};

export const storeOptions: Options = {
  store: {
    value: "<store>",
    help: "SQLite file, or postgres://, mysql:// or redis:// URL; default: STAYHOOK_STORE",
  },
  ...engineStoreOptions,
};

const engines = {
  schema: { engine: "PostgreSQL", schemes: /^postgres(ql)?:/ },
  prefix: { engine: "Redis", schemes: /^rediss?:/ },
} as const;

/**
 * Opens the store that the user named, runs `use`, and closes the store. Loads only the driver of this store.
 *
 * @param handlesSignal - whether `use` ends by itself on Ctrl-C. If not, this function rejects at once on Ctrl-C
 * @throws UsageError if no store is named; MissingError if the store does not exist, so that a typo creates no store
 */
export async function withStore<T>(
  invocation: Invocation,
  use: (store: EventStore<unknown>) => Promise<T>,
  { handlesSignal = false, migrate }: { readonly handlesSignal?: boolean; readonly migrate?: boolean } = {},
): Promise<T> {
  const { signal } = invocation.io;
  const used = open(invocation, migrate).then((store) => use(store).finally(() => store.close()));
  if (handlesSignal) return used;
  // On Ctrl-C, end at once, even if the store does not answer.
  const interrupted = once(signal, "abort").then(() => Promise.reject(signal.reason));
  return Promise.race([used, interrupted]);
}

/** Returns the store's address from `--store` or STAYHOOK_STORE. @throws UsageError if it ends in white space */
function addressOf({ text, io }: Invocation): string | undefined {
  const where = (text("store") ?? io.env.STAYHOOK_STORE) || undefined;
  if (where !== undefined) checkEnd(where, "--store or STAYHOOK_STORE");
  return where;
}

/** Refuses a path or URL that ends in white space, because it names another file. @throws UsageError */
export function checkEnd(where: string, setting: string): void {
  if (/\s$/.test(where))
    throw new UsageError(
      `${setting} ends in white space. If the value is from an env file, save that file with LF line ends, not CRLF.`,
    );
}

/** Opens the store of `--store` or STAYHOOK_STORE. */
function open(invocation: Invocation, migrate?: boolean): Promise<EventStore<unknown>> {
  const { text } = invocation;
  const where = addressOf(invocation);
  if (where === undefined) throw new UsageError("No event store is given. Set --store or STAYHOOK_STORE.");
  checkEngineOptions(invocation, [where], "--store or STAYHOOK_STORE");
  const isOption = text("store") !== undefined;
  return openStore(invocation, where, { setting: "--store or STAYHOOK_STORE", isOption, migrate });
}

/**
 * Reads the version of the store's tables or keys, and changes nothing.
 *
 * @returns `undefined` if no store is named
 */
export async function schemaOf(invocation: Invocation): Promise<StoreSchema | undefined> {
  const where = addressOf(invocation);
  if (where === undefined) return undefined;
  if (schemeOf(where) !== undefined || !existsSync(where))
    return withStore(invocation, async (store) => store.schema?.(), { migrate: false });
  // sqliteStore() would throw if the tables are older.
  return (await import("../stores/sqlite/sqlite-schema.ts")).readSchema(where);
}

/**
 * @param side - before the names of the options of one of two stores: `from-`
 * @throws UsageError if an option is given that none of the stores has
 */
export function checkEngineOptions(
  { text }: Invocation,
  stores: readonly string[],
  settings: string,
  side = "",
): void {
  for (const [engineOption, { engine, schemes }] of Object.entries(engines)) {
    const name = side + engineOption;
    if (text(name) !== undefined && !stores.some((where) => schemes.test(schemeOf(where) ?? "")))
      throw new UsageError(`--${name} works only with ${engine}. Remove --${name}, or check ${settings}.`);
  }
}

/** How to open a store. */
export interface Opening {
  /** The name of the setting with the store's address, for messages. */
  readonly setting: string;
  /** Whether the address is in the arguments, which other users of the machine can read. */
  readonly isOption: boolean;
  /** PostgreSQL's schema. Default: `--schema`. */
  readonly schema?: string | undefined;
  /** Redis' key prefix. Default: `--prefix`. */
  readonly prefix?: string | undefined;
  /** Whether the store may be missing, and is made then. */
  readonly create?: boolean | undefined;
  /** Whether the store upgrades its tables or keys. Default `true`. */
  readonly migrate?: boolean | undefined;
}

/**
 * Opens the store at an address.
 *
 * @throws UsageError if the address is no store's; MissingError if the store does not exist
 */
export async function openStore(
  { text, out }: Invocation,
  where: string,
  opening: Opening,
): Promise<EventStore<unknown>> {
  const { setting, isOption, migrate, schema = text("schema"), prefix = text("prefix") } = opening;
  if (isOption && hasPassword(where))
    out.warn(
      `Other users of this machine can read the password in ${setting}. Use ${setting === "--from" || setting === "--to" ? "a variable such as PGPASSWORD" : "STAYHOOK_STORE"} instead.`,
    );
  // Make the store before you connect to the server, because the store checks the options.
  switch (schemeOf(where)) {
    case "postgres://":
    case "postgresql://": {
      const { postgresStore } = await import("../stores/postgres/index.ts");
      const store = postgresStore({ connectionString: where, schema, migrate });
      await assertUsed(store, where, `the schema ${schema ?? "stayhook"}`, opening);
      return store;
    }
    case "mysql://": {
      const { mysqlStore } = await import("../stores/mysql/index.ts");
      const store = mysqlStore({ url: where, migrate }) as EventStore<unknown>;
      await assertUsed(store, where, `the database ${new URL(where).pathname.slice(1)}`, opening);
      return store;
    }
    case "redis://":
    case "rediss://": {
      const { redisStore } = await import("../stores/redis/index.ts");
      // Do not warn about settings of Redis, because the app already logs such warnings.
      const store = redisStore({ url: where, prefix, logger: () => {}, migrate });
      await assertUsed(store, where, `the prefix ${prefix ?? "stayhook"}`, opening);
      return store;
    }
    case undefined:
      return openFile(where, opening);
    default:
      throw new UsageError(`${setting} must be an SQLite file, or a postgres://, mysql:// or redis:// URL.`);
  }
}

/** Accepts only schemes of two letters or more: on Windows, one letter and a colon name a drive, as in `C:`. */
function schemeOf(where: string): string | undefined {
  return /^([a-z][\w+.-]+:(?:\/\/)?)/i.exec(where)?.[1]?.toLowerCase();
}

/**
 * Asks a store for its tables or keys, because its first call would create them for a typo. Closes the store if it throws.
 *
 * @throws MissingError if `place` has no tables or keys of stayhook; StayhookError if the server does not answer
 */
async function assertUsed(
  store: EventStore<unknown>,
  url: string,
  place: string,
  { setting, create }: Opening,
): Promise<void> {
  if (create) return;
  const host = (URL.canParse(url) && new URL(url).host) || "localhost";
  try {
    const { version } = await store.schema!();
    if (version === 0)
      throw new MissingError(`There is no event store in ${place} at ${host}. Is ${setting} right?`);
  } catch (error) {
    await store.close();
    throw error instanceof MissingError ? error : unreadable(error as Error, host, setting);
  }
}

/** The codes with which PostgreSQL and MySQL say that the database does not exist. */
const noDatabase: readonly unknown[] = ["3D000", "ER_BAD_DB_ERROR"];

function unreadable(error: Error, host: string, setting: string): Error {
  const cause = error.cause as (Error & { readonly code?: unknown }) | undefined;
  if (noDatabase.includes(cause?.code))
    return new MissingError(`There is no such database at ${host}: ${cause!.message}. Is ${setting} right?`);
  // After a missing package, the setting is no suspect.
  if (cause === undefined || isDriverProblem(error)) return error;
  return new StayhookError(`The store at ${host} cannot be read. Is ${setting} right? ${error.message}`, {
    cause,
  });
}

async function openFile(path: string, { setting, create }: Opening): Promise<EventStore<unknown>> {
  if (!existsSync(path) && !(create && !/[@=]/.test(path))) {
    // Do not show a mistyped connection string, which may hold a password.
    throw new MissingError(
      /[@=]/.test(path)
        ? `${setting} names no existing file, and does not begin with postgres://, mysql:// or redis://.`
        : `There is no file ${path}. Is ${setting} right?`,
    );
  }
  try {
    const { DatabaseSync } = await import("node:sqlite");
    if (!create && isForeign(path, DatabaseSync))
      throw new MissingError(`There is no event store in ${path}. Is ${setting} right?`);
    const { sqliteStore } = await import("../stores/sqlite/index.ts");
    return sqliteStore(path) as EventStore<unknown>;
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_UNKNOWN_BUILTIN_MODULE")
      throw new StayhookError("This runtime has no node:sqlite. Use Node 22.13 or newer.", { cause: error });
    throw error;
  }
}

/** Whether the file is a database without the store's tables. */
function isForeign(path: string, Database: typeof DatabaseSync): boolean {
  let database: DatabaseSync | undefined;
  try {
    database = new Database(path, { readOnly: true });
    const table = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'stayhook_events'").get();
    return table === undefined;
  } catch {
    // The store itself reports a file that cannot be read.
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
