import mysql from "mysql2/promise";
import { expect, test } from "vitest";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { endIdleAfter, LONGEST_IDLE, mysqlDriver } from "../../../src/stores/mysql/mysql-driver.ts";
import { MysqlStore } from "../../../src/stores/mysql/mysql-store.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("the server's timeout for idle transactions", () => {
  const databases = createDatabases();

  test("is longer during the user's writes, and short again after a failed write", async () => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 1 });
    const limit = async (connection: Pick<mysql.Pool, "query">) => {
      const [rows] = await connection.query<mysql.RowDataPacket[]>(
        "SELECT @@SESSION.idle_transaction_timeout AS seconds",
      );
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
    const store = new MysqlStore(driver, mysqlDialect);
    await store.add({
      eventId: "0d4fd8a6-35a5-4f0c-9b0e-000000000001",
      ref: "booking:HX3K9",
      source: "webhook",
      topic: null,
      timestamp: "2026-05-01T12:00:00.000Z",
      notification: "{}",
    });
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    let within: number | undefined;
    const write = async (tx: mysql.PoolConnection) => {
      within = await limit(tx);
      throw new Error("no such calendar");
    };
    const outcome = {
      state: "done",
      type: "booking.Confirmed",
      entry: { duration: 1 },
      writes: [write],
    } as const;
    await expect(store.settle(claim!, outcome)).rejects.toThrow("no such calendar");
    expect(within).toBe(60);
    expect(await limit(pool)).toBe(2);
    await store.close();
  });
});
