// What the store checks of its schema, and repairs.

import { StayhookError } from "../../errors.ts";
import type { SqlRow } from "../sql/driver.ts";
import type { StoreProblem } from "../store-problem.ts";
import { quote } from "./postgres-dialect.ts";
import type { Row } from "./postgres-driver.ts";

/**
 * A row with a value of each type that `pg` must not parse in another way, and with a table whose rows a policy may hide from
 * this user. A policy that is `true` for all commands hides none.
 */
export function checkSql(schema: string): string {
  return `
    SELECT true AS yes, decode('00ff', 'hex') AS bytes, hiding.* FROM (VALUES (1)) AS one LEFT JOIN (
    SELECT c.relname AS name, current_user AS role FROM pg_catalog.pg_class c
    WHERE c.relnamespace = to_regnamespace('${quote(schema)}') AND c.relname IN ('events', 'records', 'meta')
      AND c.relkind IN ('r', 'p') AND row_security_active(c.oid) AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = '*' AND p.polpermissive
          AND pg_get_expr(p.polqual, p.polrelid) = 'true')
    ORDER BY c.relname LIMIT 1) AS hiding ON true`;
}

/** @throws StayhookError if the row shows that the pool parses values in its own way, or names a table that may hide rows */
export function assertUsable(schema: string, [found]: readonly Row[]): void {
  const { yes, bytes, ...hidden } = found!;
  if (yes !== true || !(bytes instanceof Uint8Array) || bytes[1] !== 255)
    throw new StayhookError(
      "postgresStore needs the parsers of pg for the types bool and bytea. Remove your own: the pool's option types, or pg.types.setTypeParser with 16 or 17.",
    );
  if (hidden.name === null) return;
  const table = `${quote(schema)}.${String(hidden.name)}`;
  throw new StayhookError(
    `postgresStore: row-level security of the table ${table} may hide rows from the user ${String(hidden.role)}. Run ALTER TABLE ${table} DISABLE ROW LEVEL SECURITY, do the same for the other tables of the schema, or give the user BYPASSRLS.`,
  );
}

/** Sets the sequence of the events behind the last event. Needs the right UPDATE on the sequence. */
export function sequenceSql(schema: string): string {
  const events = `${quote(schema)}.events`;
  return `SELECT setval(pg_get_serial_sequence('${events}', 'seq'), (SELECT max(seq) FROM ${events}))`;
}

/** Whether the sequence gave a number that an event has: after a restore, or on a logical replica that was promoted. */
export function isSequenceBehind(error: unknown): boolean {
  const { code, constraint } = Object((error as Error | undefined)?.cause) as Row;
  return code === "23505" && constraint === "events_pkey";
}

export function sequenceError(schema: string, cause: unknown): StayhookError {
  return new StayhookError(
    `postgresStore: the sequence of ${quote(schema)}.events is behind its table, as after a restore or a logical replication, and could not be set. Run as the owner: ${sequenceSql(schema)}`,
    { cause },
  );
}

const SETTINGS = `
  SELECT current_setting('synchronous_commit') AS commits, current_setting('fsync') AS fsync, pg_is_in_recovery() AS standby,
    current_setting('default_transaction_read_only') AS fixed`;
/** No function of this query is volatile, so a proxy that sends reads to a standby sends it there. */
const READ_ONLY = "SELECT current_setting('transaction_read_only') AS fixed";

/** Returns what the settings of the server can lose, and what a proxy does. @param read - runs a query */
export async function risksOf(read: (sql: string) => Promise<readonly SqlRow[]>): Promise<StoreProblem[]> {
  const [{ commits, fsync, standby, fixed }, { fixed: readsFixed }] = [
    await read(SETTINGS),
    await read(READ_ONLY),
  ].map(([row]) => row!) as [SqlRow, SqlRow];
  const risks: [isThere: boolean, fails: boolean, detail: string][] = [
    [
      commits === "off",
      false,
      "synchronous_commit is off, so a crash may lose the events of the last moments.",
    ],
    [fsync === "off", false, "fsync is off, so a crash of the machine may lose all events."],
    [standby === true, true, "The server is a standby. Give the store the primary."],
    [
      standby !== true && fixed === "off" && readsFixed === "on",
      false,
      "A proxy sends reads to a standby, so lists, counts and the console may be behind. Events are handled on the primary.",
    ],
    // The trial begins a transaction that may write. The statements of the hot path do not.
    [
      fixed === "on",
      true,
      "default_transaction_read_only is on for this role, database or server. Some providers set it when the disk is nearly full.",
    ],
  ];
  return risks.filter(([isThere]) => isThere).map(([, fails, detail]) => ({ fails, detail }));
}
