import { check, integerFrom, option, optionsObject } from "../../options.ts";
import type { SqlDialect } from "./driver.ts";
import { FIRST_VERSION, latestVersion, migrationsBetween } from "./sql-schema.ts";

/** Options of `migrationSql`. */
export type MigrationOptions = {
  /** The schema version of the tables, which their table `meta` has under the name `schema`. Default 0: no tables. */
  readonly from?: number | undefined;
  /** The schema version that the tables then have. Default: the version that this version of stayhook makes. */
  readonly to?: number | undefined;
};

// Not in postgres/index.ts: there, the bundler of the declarations would take the base from mysql.d.ts, which needs mysql2.
/** Options of `migrationSql` for PostgreSQL. */
export type SchemaMigrationOptions = MigrationOptions & {
  /** The PostgreSQL schema for the tables. Default `stayhook`. */
  readonly schema?: string | undefined;
};

/** Checks the options of `migrationSql`. */
export function checkVersions(dialect: SqlDialect, options: MigrationOptions) {
  const latest = latestVersion(dialect);
  const versions = () =>
    optionsObject({
      from: option<number>((from) =>
        from === 0 || (Number.isSafeInteger(from) && (from as number) >= FIRST_VERSION)
          ? undefined
          : `must be 0 if there are no tables, or their schema version, which is ${FIRST_VERSION} or more`,
      ).default(0),
      to: integerFrom(
        FIRST_VERSION,
        latest,
        `must be a schema version that this version of stayhook knows, from ${FIRST_VERSION} to ${latest}`,
      ).default(latest),
    });
  return check(versions, options);
}

/** Returns the statements of the migrations between two versions of the tables, as a script. */
export function migrationScript(dialect: SqlDialect, from: number, to: number): string {
  return migrationsBetween(dialect, from, to)
    .flatMap(({ statements, note }) => [
      ...(note === undefined ? [] : [`-- ${note}\n`]),
      ...statements.map((statement) => `${statement};\n`),
    ])
    .join("");
}
