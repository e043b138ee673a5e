import { StayhookError } from "../../errors.ts";
import type { Session } from "./connections.ts";
import { functions } from "./functions.ts";
import { literal, quote, tables } from "./tables.ts";

/** How long making the tables may take, ms. */
const PATIENCE = 60_000;

/** What each version of the schema adds to the one before it. A step that was released is never changed. */
const steps: readonly ((schema: string) => string)[] = [
  (schema) => `${tables(schema)}${functions(schema, channelOf(schema))}`,
];

/** Where processes on one schema call each other. PostgreSQL has such names for a whole database, and cuts long ones off. */
export function channelOf(schema: string): string {
  return `stayhook ${schema}`.slice(0, 63);
}

/** The SQL that makes the schema, or brings it up to this version from `from`: a transaction of its own. */
export function migrationSql(schema: string, from = 0): string {
  const s = quote(schema);
  const create = `
DO $stayhook$ BEGIN
  IF to_regnamespace(${literal(quote(schema))}) IS NULL THEN CREATE SCHEMA ${s}; END IF;
END $stayhook$;
`;
  const version = `
CREATE OR REPLACE FUNCTION ${s}.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT ${steps.length}';
`;
  return [create, ...steps.slice(from).map((step) => step(schema)), version].join("");
}

/**
 * Brings the schema up to this version, once however many processes start at the same time.
 *
 * @throws {@link StayhookError} where it is a later version's, or the database cannot keep what it must
 */
export async function migrate(session: Session, schema: string): Promise<void> {
  if ((await versionOf(session, schema)) === steps.length) return;
  await session.query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  try {
    // The others that start wait for the one that is faster.
    const lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    await session.query(lock, [`stayhook ${schema}`], PATIENCE);
    await assertUnicode(session);
    const version = await versionOf(session, schema);
    if (version < steps.length) await session.query(migrationSql(schema, version), undefined, PATIENCE);
    await session.query("COMMIT");
  } catch (error) {
    await session.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function versionOf(session: Session, schema: string): Promise<number> {
  const [row] = await session.query(
    `SELECT p.prosrc AS source FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = $1 AND p.proname = 'schema_version'`,
    [schema],
  );
  if (row === undefined) return 0;
  const version = Number(/\d+/.exec(row.source ?? "")?.[0]);
  if (version <= steps.length) return version;
  throw new StayhookError(
    `postgresStore: the schema ${schema} was made by a newer version of stayhook (it is version ${version}, this one knows up to ${steps.length}): update stayhook, or give another schema`,
  );
}

/** In any other encoding a notification may hold what cannot be recorded, and would never be answered 200. */
async function assertUnicode(session: Session): Promise<void> {
  const [row] = await session.query("SELECT current_setting('server_encoding') AS encoding");
  if (row?.encoding === "UTF8") return;
  throw new StayhookError(
    `postgresStore: the database's encoding is ${row?.encoding}, which cannot hold every notification: create one WITH ENCODING 'UTF8'`,
  );
}
