import mysql from "mysql2/promise";
import { afterAll, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { MysqlDriver } from "../../../src/stores/mysql/mysql-driver.ts";
import { MysqlStore } from "../../../src/stores/mysql/mysql-store.ts";
import { checkAgainstModel } from "../model-check.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("compared with the model", () => {
  const databases = createDatabases();
  let pool: mysql.Pool | undefined;
  afterAll(() => pool?.end());

  /** Empties the one database that all runs share. Its clock is this process's clock, which the check sets. */
  async function emptyStore(): Promise<EventStore<unknown>> {
    const from = pool ?? mysql.createPool({ uri: await databases.create(), connectionLimit: 3 });
    pool = from;
    const driver = new MysqlDriver({
      pool: async () => from,
      isOwn: false,
      waitsAtOnce: 1,
      commandTimeout: 60_000,
      pollInterval: 3_600_000,
      close: async () => {},
    });
    const store = new MysqlStore(driver, {
      dialect: { ...mysqlDialect, clock: undefined },
      place: "the database",
    });
    await store.counts();
    for (const table of ["events", "records"]) await from.query(`DELETE FROM stayhook_${table}`);
    await from.query("DELETE FROM stayhook_meta WHERE name <> 'schema'");
    return store as unknown as EventStore<unknown>;
  }

  test("the store gives the same results as the model", async () => {
    const numRuns = Number(process.env.STAYHOOK_MODEL_RUNS ?? 5);
    await checkAgainstModel({ create: emptyStore, numRuns, maxSteps: 60 });
  });
});
