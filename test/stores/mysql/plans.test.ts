import type mysql from "mysql2/promise";
import { beforeAll, expect, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { mysqlDialect } from "../../../src/stores/mysql/mysql-dialect.ts";
import { statementsOf } from "../../../src/stores/sql/sql-statements.ts";
import { createDatabases, describeMysql } from "./support.ts";

const EVENTS = 5000;

describeMysql("among many events", () => {
  const databases = createDatabases();
  const statements = statementsOf(mysqlDialect);
  let database: string;

  beforeAll(async () => {
    const url = await databases.create();
    database = new URL(url).pathname.slice(1);
    const store = mysqlStore({ url });
    await store.counts();
    await store.close();
    // Two events a record: a scan of all would cost the planner far more than the index.
    const rows = Array.from({ length: EVENTS }, (_, n) => [`id${n}`, `booking:${n % (EVENTS / 2)}`]);
    await databases.pool.query(
      `INSERT INTO ${database}.stayhook_events (id, ref, state, first_due_at, received_at, source, timestamp)
      VALUES ${rows.map(([id, ref]) => `('${id}', '${ref}', 'done', 0, 0, 'webhook', '')`).join()}`,
    );
    await databases.pool.query(`ANALYZE TABLE ${database}.stayhook_events`);
  });

  async function planOf(sql: string, values: readonly unknown[]) {
    const connection = await databases.pool.getConnection();
    try {
      await connection.query(`USE ${database}`);
      const [rows] = await connection.query<mysql.RowDataPacket[]>(
        `EXPLAIN FORMAT=TRADITIONAL ${sql}`,
        values as unknown[],
      );
      return rows.map(({ table, type, key, rows }) => ({ table, type, key, rows: Number(rows) }));
    } finally {
      connection.release();
    }
  }

  /** The statement that a list sends. */
  async function listed(filter: { ref: string }) {
    let sent: { sql: string; values: readonly unknown[] } | undefined;
    const pool = databases.pool;
    const connection = await pool.getConnection();
    await connection.query(`USE ${database}`);
    const query = connection.query.bind(connection) as (options: unknown) => Promise<unknown>;
    const spied = Object.assign(Object.create(connection), {
      query(options: { sql: string; values: readonly unknown[] }) {
        if (Object(options).sql?.includes("DESC LIMIT ?")) sent = options;
        return query(options);
      },
      release() {},
    });
    const store = mysqlStore({
      pool: Object.assign(Object.create(pool), { getConnection: async () => spied }) as mysql.Pool,
    });
    await store.list({ ...filter, limit: 10 });
    await store.close();
    connection.destroy();
    return sent!;
  }

  test.each([["endedEvents", ["booking:7"]]] as const)(
    "%s finds a record's events by index",
    async (name, values) => {
      const plan = await planOf(statements[name], values);
      expect(plan).toEqual([
        {
          table: "stayhook_events",
          type: expect.stringMatching(/^(ref|range)$/),
          key: "stayhook_events_due",
          rows: 2,
        },
      ]);
    },
  );

  test("a list of a record's events finds them by index", async () => {
    const { sql, values } = await listed({ ref: "booking:7" });
    expect(await planOf(sql, values)).toEqual([
      { table: "stayhook_events", type: "ref", key: "stayhook_events_due", rows: 2 },
    ]);
  });
});
