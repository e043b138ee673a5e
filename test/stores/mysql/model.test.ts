import mysql from "mysql2/promise";
import { expect, test } from "vitest";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { mysqlDriver } from "../../../src/stores/mysql/mysql-driver.ts";
import { MysqlStore } from "../../../src/stores/mysql/mysql-store.ts";
import { compareWithMemory } from "../differential.ts";
import { createDatabases, describeMysql } from "./support.ts";

const RUNS = Number(process.env.STAYHOOK_MODEL_RUNS ?? 3);

describeMysql("compared with the memory store", () => {
  const databases = createDatabases();

  test("the store gives the same results", async () => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 3 });
    const driver = mysqlDriver({
      pool: async () => pool,
      isPrepared: false,
      commandTimeout: 60_000,
      pollInterval: 3_600_000,
      close: async () => {},
    });
    const first = Math.floor(Math.random() * 1e9);
    for (let seed = first; seed < first + RUNS; seed++) {
      // Without `clock`, the store reads the clock of this process, which the comparison sets.
      const store = new MysqlStore(driver, { ...mysqlDialect, clock: undefined });
      await store.counts();
      for (const table of ["events", "records"]) await pool.query(`DELETE FROM stayhook_${table}`);
      await pool.query("DELETE FROM stayhook_meta WHERE name <> 'schema'");
      await compareWithMemory(store, seed, 80);
    }
    await pool.end();
    expect(RUNS).toBeGreaterThan(0);
  }, 120_000);
});
