import { StayhookError } from "../../errors.ts";
import { AdvisedError } from "../call-errors.ts";
import { change, type SqlDialect, type SqlMigration, type SqlSteps, select } from "./driver.ts";
import { number, text } from "./sql-rows.ts";
import { statementsOf } from "./sql-statements.ts";

/** The version of the tables that {@link SqlDialect.schema} creates. stayhook 1.2 and earlier made version 2 at most. */
export const FIRST_VERSION = 3;

/** The tables of one store. */
export interface Tables {
  readonly dialect: SqlDialect;
  /** Where the tables are, for messages: `the schema stayhook`. */
  readonly place: string;
  /** How to give the store a place without tables. Default: `use an empty database`. */
  readonly elsewhere?: string;
  /** Returns the call of `migrationSql` for these tables. `sqlStore` has no such function. */
  migrationCall?(from: number, to: number): string;
}

/** Returns the version of the tables that this version of stayhook makes. */
export function latestVersion({ migrations = [] }: SqlDialect): number {
  return FIRST_VERSION + migrations.length;
}

/**
 * Returns the migrations that lead from one version to another, each with the statement that notes its version. The
 * statement never lowers the version, because a newer version of stayhook may have upgraded the tables.
 */
export function migrationsBetween(dialect: SqlDialect, from: number, to: number): SqlMigration[] {
  const name = "INSERT INTO stayhook_meta (name, value, set_at) VALUES";
  const first = `${name} ('schema', '${FIRST_VERSION}', 0)`;
  const all: SqlMigration[] = [
    { statements: [...dialect.schema, dialect.insertIgnore(first)] },
    ...(dialect.migrations ?? []).map(({ statements, note }, index) => {
      const version = FIRST_VERSION + index;
      const raise = `UPDATE stayhook_meta SET value = '${version + 1}' WHERE name = 'schema' AND value = '${version}'`;
      return { statements: [...statements, raise], note };
    }),
  ];
  const indexOf = (version: number) => Math.max(0, version - FIRST_VERSION + 1);
  return all.slice(indexOf(from), indexOf(to));
}

/**
 * Returns the version of the tables, or 0 if there are none.
 *
 * @throws StayhookError if stayhook 1.2 or an earlier version made the tables
 */
export function* versionOf({
  dialect,
  place,
  elsewhere = "use an empty database",
}: Tables): SqlSteps<number> {
  const sql = statementsOf(dialect);
  // Another process may create the tables between these statements. Nobody creates `events` before `meta`.
  if ((yield* select(sql.tableExists, "stayhook_events")).length === 0) return 0;
  if ((yield* select(sql.tableExists, "stayhook_meta")).length > 0) {
    const [row] = yield* select(sql.meta, "schema");
    // A process was killed while it created the tables.
    if (row === undefined) return 0;
    const version = number(text(row.value));
    if (version >= FIRST_VERSION) return version;
  }
  throw new StayhookError(
    `stayhook 1.2 or an earlier version made the tables in ${place}, and this version cannot use them. Let that version handle all its events. Then ${elsewhere}, and run a pass of the reconciler`,
  );
}

/** Runs the migrations that the tables lack. */
export function* migrate(tables: Tables): SqlSteps<void> {
  const { dialect } = tables;
  // Another process may have changed the tables meanwhile, so read the version under the lock.
  const version = yield* versionOf(tables);
  for (const { statements } of migrationsBetween(dialect, version, latestVersion(dialect)))
    for (const statement of statements) yield* change(statement);
}

/**
 * Whether the tables can be used. Newer versions of stayhook only add to the tables, so this version can use newer ones.
 *
 * @throws StayhookError if they must be migrated, and the option `migrate` is `false`
 */
export function isUsable(tables: Tables, version: number, migrates: boolean): boolean {
  const latest = latestVersion(tables.dialect);
  if (version >= latest) return true;
  if (migrates) return false;
  throw new StayhookError(
    `${stateOf(tables, version)}, and the option migrate is false. ${adviceOn(tables, version)}`,
  );
}

/** Returns the failed action for the error message of a driver. */
export function failedMigration(version: number): string {
  return version === 0
    ? "the tables could not be created"
    : `the tables could not be upgraded from schema version ${version}`;
}

/** Adds to an error of a migration how to run it by hand. */
export function withAdvice(error: unknown, tables: Tables, version: number): unknown {
  // An error without a cause is the store's own, and says what to do.
  if (!(error instanceof StayhookError) || error.cause === undefined || error instanceof AdvisedError)
    return error;
  return new StayhookError(
    `${error.message}. If the store's user has no right to change tables, or if the change takes too long: ${adviceOn(tables, version)}`,
    { cause: error.cause },
  );
}

function stateOf({ dialect, place }: Tables, version: number): string {
  const needed = `this version of stayhook needs schema version ${latestVersion(dialect)}`;
  return version === 0
    ? `There are no tables in ${place}, and ${needed}`
    : `The tables in ${place} have schema version ${version}, ${needed}`;
}

/** Says which SQL upgrades the tables. */
function adviceOn({ dialect, migrationCall }: Tables, from: number): string {
  const to = latestVersion(dialect);
  const migrations = migrationsBetween(dialect, from, to);
  const heads = migrations.flatMap(({ statements }) => statements.slice(0, -1).map(headOf));
  const notes = migrations.flatMap(({ note }) => (note === undefined ? [] : [` ${note}`]));
  const sql = migrationCall === undefined ? "of its dialect" : `that ${migrationCall(from, to)} returns`;
  return `Run the SQL ${sql}, then start again. Its statements are: ${heads.join("; ")}.${notes.join("")}`;
}

/** Returns the beginning of a statement: its verb and its object. */
function headOf(statement: string): string {
  return statement
    .trim()
    .split(/\s*[(\n]/)[0]!
    .slice(0, 80);
}
