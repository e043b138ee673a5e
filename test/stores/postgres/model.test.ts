import pg from "pg";
import { afterAll, beforeAll, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { checkAgainstModel } from "../model-check.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

const TABLES = ["events", "records"];

describePostgres("compared with the model", () => {
  const schemas = createSchemas();
  const [schema, clock] = [schemas.name(), schemas.name()];
  // Replace the database's clock: PostgreSQL finds the functions of this schema first.
  const pool = new pg.Pool({ connectionString: url, options: `-c search_path=${clock},pg_catalog`, max: 1 });
  afterAll(() => pool.end());
  beforeAll(async () => {
    await pool.query(`
      CREATE SCHEMA ${clock};
      CREATE TABLE ${clock}.clock (at timestamptz NOT NULL);
      INSERT INTO ${clock}.clock VALUES ('epoch');
      CREATE FUNCTION ${clock}.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM ${clock}.clock';
      CREATE FUNCTION ${clock}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT at FROM ${clock}.clock';`);
    const store = postgresStore({ pool, schema });
    await store.migrate();
    await store.close();
  });

  let told = Number.NaN;
  /** Makes an empty store that uses the clock of this process. */
  function create(): EventStore<unknown> {
    const store = postgresStore({ pool, schema, wake: "poll", pollInterval: 3_600_000 });
    let emptied = false;
    const prepare = async () => {
      if (!emptied)
        await pool.query(
          `TRUNCATE ${TABLES.map((name) => `${schema}.${name}`)}; DELETE FROM ${schema}.meta WHERE name <> 'schema'`,
        );
      emptied = true;
      const now = Date.now();
      if (now !== told)
        await pool.query(`UPDATE ${clock}.clock SET at = to_timestamp($1::float8 / 1000)`, [now]);
      told = now;
    };
    return new Proxy<EventStore<unknown>>(store, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        if (["subscribe", "close", "snapshots", "ledgers"].includes(String(name))) return value.bind(target);
        return async (...args: unknown[]) => {
          await prepare();
          return value.apply(target, args);
        };
      },
    });
  }

  test("the store gives the same results as the model", async () => {
    const numRuns = Number(process.env.STAYHOOK_MODEL_RUNS ?? 8);
    await checkAgainstModel({ create, numRuns });
  });
});
