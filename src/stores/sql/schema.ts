import { StayhookError } from "../../errors.ts";
import { change, type SqlDialect, type SqlSteps, select } from "./driver.ts";
import { number, text } from "./rows.ts";
import { statementsOf } from "./statements.ts";

/** A newer package only adds to the tables, so that this one works on them. */
const SCHEMA_VERSION = 1;

/** Whether the tables are there. */
export function* isMigrated(dialect: SqlDialect): SqlSteps<boolean> {
  const meta = yield* select(dialect.tableExists, "stayhook_meta");
  if (meta.length > 0) {
    const [row] = yield* select(statementsOf(dialect).meta, "schema");
    return row !== undefined && number(text(row.value)) >= SCHEMA_VERSION;
  }
  const events = yield* select(dialect.tableExists, "stayhook_events");
  if (events.length === 0) return false;
  throw new StayhookError(
    "its tables are of stayhook 0.1, which this version cannot read: let stayhook 0.1 handle its events to the end, then use an empty database",
  );
}

/** Makes the tables where they are not there. */
export function* migrate(dialect: SqlDialect): SqlSteps<void> {
  // Another process may have been faster.
  if (yield* isMigrated(dialect)) return;
  for (const statement of dialect.schema) yield* change(statement);
  yield* change(statementsOf(dialect).insertMeta, "schema", String(SCHEMA_VERSION), Date.now());
}
