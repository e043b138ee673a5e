import mysql from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { migrationSql, mysqlStore } from "../../../src/stores/mysql/index.ts";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { MysqlDriver } from "../../../src/stores/mysql/mysql-driver.ts";
import { ownLimits } from "../../../src/stores/mysql/mysql-session.ts";
import { MysqlStore } from "../../../src/stores/mysql/mysql-store.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createDatabases, describeMysql, isMariadb } from "./support.ts";

describeMysql("the tables", () => {
  const databases = createDatabases();

  test("that the user may not create: the error has the reason, and the SQL to run", async () => {
    const server = new URL(await databases.create());
    const name = server.pathname.slice(1);
    const user = name.slice(-30);
    await databases.pool.query(`CREATE USER '${user}'@'%' IDENTIFIED BY 'p'`);
    await databases.pool.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${name}.* TO '${user}'@'%'`);
    const url = Object.assign(new URL(server), { username: user, password: "p" }).href;
    const store = mysqlStore({ url });
    const rejection = await store.add(eventOf()).catch((error) => String(error));
    expect(rejection).toMatch(/the tables could not be created: .*CREATE command denied/);
    expect(rejection).toContain("Run the SQL that migrationSql({ from: 0, to: 3 }) returns");
    const admin = await mysql.createConnection({ uri: server.href, multipleStatements: true });
    await admin.query(migrationSql());
    await admin.end();
    expect(await store.add(eventOf())).toBe("added");
    await store.close();
    const strict = mysqlStore({ url, migrate: false });
    expect(await strict.schema?.()).toEqual({ version: 3, expected: 3 });
    await strict.close();
    await databases.pool.query(`DROP USER '${user}'@'%'`);
  });
});

describeMysql("the writes of event.atomically", () => {
  const databases = createDatabases();

  test("that meet deadlocks ten times have failed", async () => {
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
    expect(rejection).toBe(deadlock);
    expect(runs).toBe(10);
    expect(await store.counts()).toMatchObject({ processing: 1 });
  });

  /** The limits of a session in seconds. MySQL has none for an idle transaction. */
  async function limit(connection: Pick<mysql.Pool, "query">): Promise<string> {
    const sql = `
      SELECT CONCAT_WS(' ', /*M! @@idle_transaction_timeout, ROUND(@@max_statement_time), */
        /*!80000 'none', @@max_execution_time DIV 1000, */ @@innodb_lock_wait_timeout, @@lock_wait_timeout) AS seconds`;
    const [rows] = await connection.query<mysql.RowDataPacket[]>(sql);
    return String(rows[0]?.seconds);
  }
  const withIdle = (idle: number, others: string) => `${isMariadb ? idle : "none"} ${others}`;

  /** @returns which connection the pool uses */
  async function idOf(connection: Pick<mysql.Pool, "query">): Promise<unknown> {
    const [rows] = await connection.query<mysql.RowDataPacket[]>("SELECT CONNECTION_ID() AS id");
    return rows[0]?.id;
  }

  test("have longer limits, which are short again afterwards, and a failed write ends its connection", async () => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 1 });
    await pool.query(ownLimits(10_000));
    const driver = new MysqlDriver({
      pool: async () => pool,
      isOwn: true,
      waitsAtOnce: 1,
      commandTimeout: 10_000,
      pollInterval: 3_600_000,
      close: () => pool.end(),
    });
    const store = new MysqlStore(driver, { dialect: mysqlDialect, place: "the database" });
    await store.add(eventOf());
    await store.add(eventOf("booking:B"));
    const [first, second] = await store.claim({ ...CLAIM, limit: 2 });
    const within: string[] = [];
    const write = async (tx: mysql.PoolConnection) => void within.push(await limit(tx));
    await store.settle(first!, { ...DONE, writes: [write] });
    expect(within).toEqual([withIdle(60, "60 10 10")]);
    expect(await limit(pool)).toBe(withIdle(2, "10 1 10"));

    // The write may have changed the session, as USE does.
    const before = await idOf(pool);
    const fail = () => Promise.reject(new Error("no such calendar"));
    await expect(store.settle(second!, { ...DONE, writes: [fail] })).rejects.toThrow("no such calendar");
    expect(await idOf(pool)).not.toBe(before);
    await store.close();
  });

  test("and other queries on a pool of the user have the user's limits", async () => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 1 });
    const store = mysqlStore({ pool });
    await store.counts();
    await pool.query("SET SESSION innodb_lock_wait_timeout = 33, lock_wait_timeout = 44");
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    const within: string[] = [];
    const write = async (tx: mysql.PoolConnection) => void within.push(await limit(tx));
    await store.settle(claim!, { ...DONE, writes: [write] });
    expect([...within, await limit(pool)]).toEqual(Array(2).fill(withIdle(0, "0 33 44")));
    await store.close();
    await pool.end();
  });
});
