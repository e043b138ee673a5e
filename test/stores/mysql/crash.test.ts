import { join } from "node:path";
import mysql from "mysql2/promise";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { testCrashes } from "../crash-check.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("workers whose callbacks write to the user's tables", () => {
  const databases = createDatabases();

  testCrashes({
    worker: join(import.meta.dirname, "worker.ts"),
    killedAt: ["in the callback", "in the writes", "before the commit", "after the commit"],
    frozenAt: ["in the callback"],
    async create() {
      const url = await databases.create();
      const connection = await mysql.createConnection({ uri: url });
      for (const table of ["handled", "begun"])
        await connection.query(`CREATE TABLE ${table} (event VARCHAR(36))`);
      const store = mysqlStore({ url });
      return {
        place: { url },
        store,
        async rows(table) {
          const [rows] = await connection.query<mysql.RowDataPacket[]>(`SELECT event FROM ${table}`);
          return rows.map(({ event }) => event as string);
        },
        async close() {
          await store.close();
          await connection.end();
        },
      };
    },
  });
});
