import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, describe, vi } from "vitest";
import { type PostgresStoreOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { postgresUrl } from "../../support/postgres-server.ts";

// Other work on the machine may slow a server down.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** The server that tests share; without one they are skipped, which was said on the console. */
const found = await postgresUrl();
export const url = found as string;
export const describePostgres = describe.skipIf(found === undefined);

/** Schemas of this test file's own, dropped after its tests, and connections that look at them. */
export function createSchemas() {
  const names: string[] = [];
  const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true, max: 3 });
  afterAll(async () => {
    // One at a time: a transaction can only hold so many locks.
    for (const name of names) await pool.query(`DROP SCHEMA IF EXISTS "${name}" CASCADE`);
    await pool.end();
  });
  const schemas = {
    /** As a superuser, beside the store. */
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
