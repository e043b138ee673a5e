import mysql from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { endIdleAfter, LONGEST_IDLE, mysqlDriver } from "../../../src/stores/mysql/mysql-driver.ts";
import { MysqlStore } from "../../../src/stores/mysql/mysql-store.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("the writes of event.atomically", () => {
  const databases = createDatabases();

  test("that meet deadlocks ten times are a failure of the store, not of the write", async () => {
    const store = mysqlStore({ url: await databases.create() });
    onTestFinished(() => store.close());
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    let runs = 0;
    const deadlock = Object.assign(new Error("Deadlock found"), { errno: 1213, sqlState: "40001" });
    const write = async () => {
      runs += 1;
      throw deadlock;
    };
    const rejection = await store.settle(claim!, { ...DONE, writes: [write] }).catch((error) => error);
    // If a store rejects with the error of a write, the write has failed. Any other error means that the store failed.
    expect(rejection).not.toBe(deadlock);
    expect(rejection).toMatchObject({ name: "StayhookError", cause: deadlock });
    expect(runs).toBe(10);
    expect(await store.counts()).toMatchObject({ processing: 1 });
  });

  test("have a longer limit for idle transactions, which is short again after a failed write", async () => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 1 });
    const limit = async (connection: Pick<mysql.Pool, "query">) => {
      const sql = "SELECT @@SESSION.idle_transaction_timeout AS seconds";
      const [rows] = await connection.query<mysql.RowDataPacket[]>(sql);
      return rows[0]?.seconds as number;
    };
    await pool.query(endIdleAfter(LONGEST_IDLE));
    const driver = mysqlDriver({
      pool: async () => pool,
      isPrepared: true,
      commandTimeout: 10_000,
      pollInterval: 3_600_000,
      close: () => pool.end(),
    });
    const store = new MysqlStore(driver, { dialect: mysqlDialect, place: "the database" });
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    let within: number | undefined;
    const write = async (tx: mysql.PoolConnection) => {
      within = await limit(tx);
      throw new Error("no such calendar");
    };
    await expect(store.settle(claim!, { ...DONE, writes: [write] })).rejects.toThrow("no such calendar");
    expect(within).toBe(60);
    expect(await limit(pool)).toBe(2);
    await store.close();
  });
});
