import mysql, { type Pool, type PoolConnection } from "mysql2/promise";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { createWorker } from "../crash-worker.ts";

const { place, standAt, point, handleAll } = createWorker<{ readonly url: string }>();
const { url } = place;

/** Makes the pool's connections call `point` at the commit of a transaction with the user's writes. */
function watched(pool: Pool): Pool {
  const get = pool.getConnection.bind(pool);
  return Object.assign(pool, {
    async getConnection(): Promise<PoolConnection> {
      const connection = await get();
      const query = connection.query.bind(connection) as (...args: unknown[]) => Promise<unknown>;
      let hasWritten = false;
      return Object.assign(connection, {
        query: async (...args: unknown[]) => {
          const text = typeof args[0] === "string" ? args[0] : (args[0] as { readonly sql: string }).sql;
          if (text === "START TRANSACTION") hasWritten = false;
          if (text.startsWith("SAVEPOINT")) hasWritten = true;
          if (text === "COMMIT" && hasWritten) await point("before the commit");
          const result = await query(...args);
          if (text === "COMMIT" && hasWritten) await point("after the commit");
          return result;
        },
      });
    },
  });
}

const pool = watched(mysql.createPool({ uri: url, connectionLimit: 6 }));
// To watch the commits, give the store this pool. Otherwise the store makes its own pool.
const options = standAt?.endsWith("commit") ? { pool } : { url };
await handleAll(mysqlStore({ ...options, pollInterval: 100 }), {
  begin: (eventId) => pool.query("INSERT INTO begun VALUES (?)", [eventId]),
  handle: (tx, eventId) => tx.query("INSERT INTO handled VALUES (?)", [eventId]),
});
await pool.end();
process.disconnect?.();
