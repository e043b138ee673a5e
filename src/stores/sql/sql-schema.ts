import { StayhookError } from "../../errors.ts";
import { change, type SqlDialect, type SqlSteps, select } from "./driver.ts";
import { number, text } from "./sql-rows.ts";
import { statementsOf } from "./sql-statements.ts";

const SCHEMA_VERSION = 2;

/** Whether the tables exist. Throws if an older version of stayhook made them. */
export function* isMigrated(dialect: SqlDialect): SqlSteps<boolean> {
  const sql = statementsOf(dialect);
  if ((yield* select(sql.tableExists, "stayhook_meta")).length > 0) {
    const [row] = yield* select(sql.meta, "schema");
    const version = row && number(text(row.value));
    // Newer versions only add to the tables, so this version can use newer tables.
    if (version === undefined || version >= SCHEMA_VERSION) return version !== undefined;
    throw otherVersion(`The tables have schema version ${version}`);
  }
  if ((yield* select(sql.tableExists, "stayhook_events")).length === 0) return false;
  throw otherVersion("stayhook 0.1 made the tables");
}

function otherVersion(found: string): StayhookError {
  return new StayhookError(
    `${found}, and this version of stayhook requires schema version ${SCHEMA_VERSION}. Let the version that made the tables handle all its events, then use an empty database`,
  );
}

export function* migrate(dialect: SqlDialect): SqlSteps<void> {
  // Another process may have created the tables meanwhile.
  if (yield* isMigrated(dialect)) return;
  for (const statement of dialect.schema) yield* change(statement);
  yield* change(statementsOf(dialect).insertMeta, "schema", String(SCHEMA_VERSION), Date.now());
}
