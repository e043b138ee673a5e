import mysql from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { eventually } from "../../support/eventually.ts";
import { eventOf } from "../event.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("the counter of seq", () => {
  const databases = createDatabases();

  async function setUp() {
    const uri = await databases.create();
    const pool = mysql.createPool({ uri, connectionLimit: 3 });
    const store = mysqlStore({ pool });
    onTestFinished(async () => {
      await store.close();
      await pool.end();
    });
    await store.counts();
    const other = await mysql.createConnection(uri);
    onTestFinished(() => other.end());
    return { pool, store, other };
  }

  async function waitFor(pool: mysql.Pool, state: string) {
    await eventually(async () => {
      const [rows] = await pool.query<mysql.RowDataPacket[]>(
        "SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() AND state = ?",
        [state],
      );
      expect(rows).toHaveLength(1);
    });
  }

  test("an add does not wait until another add's statement ends", async () => {
    const { pool, store, other } = await setUp();
    await pool.query(`
      CREATE TRIGGER slow AFTER INSERT ON stayhook_events FOR EACH ROW
      SET @got = IF(NEW.ref = 'booking:slow', GET_LOCK(CONCAT(DATABASE(), '.slow'), 20), 0)`);
    await other.query("DO GET_LOCK(CONCAT(DATABASE(), '.slow'), 0)");
    const ends: string[] = [];
    const slow = store.add(eventOf("booking:slow")).then((answer) => ends.push(`slow ${answer}`));
    await waitFor(pool, "User lock");
    const second = mysqlStore({ pool });
    onTestFinished(() => second.close());
    await second.add(eventOf("booking:B")).then((answer) => ends.push(`fast ${answer}`));
    await other.query("DO RELEASE_LOCK(CONCAT(DATABASE(), '.slow'))");
    await slow;
    expect(ends).toEqual(["fast added", "slow added"]);
  });

  test("an add is tried again if it does not get the counter in time", async () => {
    const { pool, store, other } = await setUp();
    for (const connection of [
      await pool.getConnection(),
      await pool.getConnection(),
      await pool.getConnection(),
    ]) {
      await connection.query("SET SESSION innodb_lock_wait_timeout = 1");
      connection.release();
    }
    // `INSERT … SELECT` holds the counter from its first row to its end.
    const holding = other.query(`
      INSERT INTO stayhook_events (id, ref, state, first_due_at, received_at, source, timestamp)
      SELECT id, 'booking:other', 'done', 0, IF(id = 'second', SLEEP(2.5), 0), 'webhook', ''
      FROM (SELECT 'first' AS id UNION ALL SELECT 'second') AS ids`);
    await waitFor(pool, "User sleep");
    expect(await store.add(eventOf())).toBe("added");
    await holding;
  });
});
