import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, describe } from "vitest";
import { type PostgresStoreOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { postgresUrl } from "../../support/postgres-server.ts";

/** The server that tests share. If there is none, a console message says that the tests are skipped. */
const found = await postgresUrl();
export const url = found as string;
export const describePostgres = describe.skipIf(found === undefined);

/** Creates schemas for one test file and drops them after its tests. Tests use `pool` for their own queries. */
export function createSchemas() {
  const names: string[] = [];
  const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true, max: 3 });
  afterAll(async () => {
    // Drop one schema at a time, because the server limits the locks of a transaction.
    for (const name of names) await pool.query(`DROP SCHEMA IF EXISTS "${name}" CASCADE`);
    await pool.end();
  });
  const schemas = {
    /** Connections as a superuser, for the tests' own queries. */
    pool,
    name() {
      const name = `stayhook_test_${randomBytes(6).toString("hex")}`;
      names.push(name);
      return name;
    },
    store(options: PostgresStoreOptions = {}) {
      const { schema = schemas.name() } = options;
      return postgresStore({ ...(options.pool ? {} : { connectionString: url }), ...options, schema });
    },
  };
  return schemas;
}
