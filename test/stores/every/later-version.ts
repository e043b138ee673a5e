/**
 * A process with a later version of stayhook, whose tables have two versions more. It opens a place, and handles events.
 * It may kill itself before a statement of the migration.
 */
import { once } from "node:events";
import { registerHooks } from "node:module";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { postgresDialect } from "../../../src/stores/postgres/postgres-dialect.ts";
import type { SqlMigration } from "../../../src/stores/sql/driver.ts";
import { sqliteDialect } from "../../../src/stores/sqlite/sqlite-dialect.ts";
import { DONE } from "../event.ts";
import type { WorkerPlace } from "./stores.ts";

export interface LaterOptions {
  readonly place: WorkerPlace;
  /** Kills the process before this statement of the migration. 1 is the first one. */
  readonly diesBefore?: number;
  readonly migrate?: boolean;
  /** Whether it says `"ready"`, and opens the store at the next message. */
  readonly waits?: boolean;
  /** How many ms it handles events. Default: until no event is due. */
  readonly handles?: number;
}

/** What the process sends. */
export interface Said {
  readonly schema?: { readonly version: number; readonly expected: number };
  readonly handled?: readonly string[];
  readonly error?: string;
  /** The SQL of `migrationSql`, from version 3. */
  readonly sql: string;
}

const NOTE =
  "The index locks the table while it is built. Build it by hand before, if there are many events.";

function add(dialect: { readonly migrations?: readonly SqlMigration[] | undefined }, index: string): void {
  const number = dialect === sqliteDialect ? "INTEGER" : "INT";
  (dialect.migrations as SqlMigration[]).push(
    {
      statements: [`ALTER TABLE stayhook_events ADD COLUMN priority ${number} NOT NULL DEFAULT 0`, index],
      note: NOTE,
    },
    { statements: ["ALTER TABLE stayhook_records ADD COLUMN color TEXT"] },
  );
}

const on = "ON stayhook_events (priority, seq)";
add(sqliteDialect, `CREATE INDEX stayhook_events_priority ${on}`);
add(mysqlDialect, `CREATE INDEX stayhook_events_priority ${on}`);
add(postgresDialect, `CREATE INDEX events_priority ${on}`);

const { place, diesBefore, migrate, handles, waits } = JSON.parse(process.argv[2]!) as LaterOptions;
const { url, schema } = place;
let statements = 0;

/** Counts the statements that write in a migration. */
function watch(sql: string): void {
  if (!/^\s*(ALTER|CREATE|COMMIT|UPDATE \S*meta\S* SET value = ')/.test(sql)) return;
  statements += 1;
  if (statements === diesBefore) process.kill(process.pid, "SIGKILL");
}

/** Keys whose hash of an event has a field more. The module's constants count the migrations when it is loaded. */
const laterKeys = `export const [FIRST_VERSION, LATEST_VERSION, migrations] =
  [3, 5, ["call('HINCRBY', base .. ':meta', 'runs', 1)", "call('HINCRBY', base .. ':meta', 'runs', 10)"]]`;

/** Loads the modules of the store first, so that processes that wait open their stores at the same moment. */
async function load(): Promise<() => readonly [store: EventStore<unknown>, sql: string]> {
  switch (place.name) {
    case "SQLite": {
      const { migrationSql, sqliteStore } = await import("../../../src/stores/sqlite/index.ts");
      return () => {
        const db = new DatabaseSync(url);
        const [prepare, exec] = [db.prepare.bind(db), db.exec.bind(db)];
        db.prepare = (sql) => {
          watch(sql);
          return prepare(sql);
        };
        db.exec = (sql) => {
          watch(sql);
          exec(sql);
        };
        const store = sqliteStore(db, { durability: "process-crash", busyTimeout: 20_000, migrate });
        return [store as EventStore<unknown>, migrationSql({ from: 3 })];
      };
    }
    case "PostgreSQL": {
      const { default: pg } = await import("pg");
      const { migrationSql, postgresStore } = await import("../../../src/stores/postgres/index.ts");
      return () => {
        const pool = new pg.Pool({ connectionString: url, max: 3, allowExitOnIdle: true });
        pool.on("connect", watchQueries);
        const store = postgresStore({ pool, schema, wake: "poll", migrate });
        return [store as EventStore<unknown>, migrationSql({ schema, from: 3 })];
      };
    }
    case "Redis": {
      registerHooks({
        load: (url, context, next) =>
          url.endsWith("/redis-migrations.ts")
            ? { format: "module", source: laterKeys, shortCircuit: true }
            : next(url, context),
      });
      const { redisStore } = await import("../../../src/stores/redis/index.ts");
      return () => {
        const store = redisStore({ url, prefix: schema, logger: () => {}, migrate });
        return [store as EventStore<unknown>, ""];
      };
    }
    default: {
      const { default: mysql } = await import("mysql2/promise");
      const { migrationSql, mysqlStore } = await import("../../../src/stores/mysql/index.ts");
      return () => {
        const pool = mysql.createPool({ uri: url, connectionLimit: 3 });
        const get = pool.getConnection.bind(pool);
        pool.getConnection = async () => {
          const connection = await get();
          watchQueries(connection);
          return connection;
        };
        return [mysqlStore({ pool, migrate }) as EventStore<unknown>, migrationSql({ from: 3 })];
      };
    }
  }
}

function watchQueries(client: object): void {
  const watched = client as { query(...args: unknown[]): unknown };
  const query = watched.query.bind(client);
  watched.query = (...args) => {
    const [first] = args as [string | { readonly text?: string; readonly sql?: string }];
    watch(typeof first === "string" ? first : (first.text ?? first.sql ?? ""));
    return query(...args);
  };
}

async function handleEvents(store: EventStore<unknown>): Promise<string[]> {
  const handled: string[] = [];
  for (const until = Date.now() + (handles ?? 20_000); Date.now() < until; ) {
    const claims = await store.claim({ limit: 5, leaseDuration: 60_000 });
    if (claims.length === 0 && handles === undefined) break;
    for (const claim of claims)
      if (await store.settle(claim, claim.ref === null ? { ...DONE, record: undefined } : DONE))
        handled.push(claim.eventId);
    await sleep(5);
  }
  return handled;
}

const say = (said: Omit<Said, "sql">, sql: string) => process.send?.({ ...said, sql } satisfies Said);

const open = await load();
if (waits) {
  const go = once(process, "message");
  process.send?.("ready");
  await go;
}
try {
  const [store, sql] = open();
  try {
    await store.counts();
    const schemaFound = await store.schema?.();
    process.send?.("open");
    say({ schema: schemaFound!, handled: await handleEvents(store) }, sql);
  } catch (error) {
    say({ error: String(error) }, sql);
  }
} catch (error) {
  say({ error: String(error) }, "");
}
process.disconnect?.();
process.exitCode = 0;
setTimeout(() => process.exit(), 500).unref();
