import { randomBytes } from "node:crypto";
import mysql from "mysql2/promise";
import { afterAll, describe } from "vitest";
import { type MysqlStoreOptions, mysqlStore } from "../../../src/stores/mysql/index.ts";
import { mysqlUrl } from "../../support/mysql-server.ts";

const found = await mysqlUrl();
export const url = found as string;
export const describeMysql = describe.skipIf(found === undefined);

/** Whether the server is MariaDB. `npm run soak -- mysql` runs these tests on MySQL. */
export const isMariadb = found !== undefined && (await versionOf(found)).includes("MariaDB");

async function versionOf(uri: string): Promise<string> {
  const connection = await mysql.createConnection({ uri });
  const [[row]] = await connection.query<mysql.RowDataPacket[]>("SELECT VERSION() AS version");
  await connection.end();
  return String(row!.version);
}

/** Creates databases for one test file and drops them after its tests. */
export function createDatabases() {
  const names: string[] = [];
  const pool = mysql.createPool({ uri: url, connectionLimit: 3 });
  afterAll(async () => {
    for (const name of names) await pool.query(`DROP DATABASE IF EXISTS ${name}`);
    await pool.end();
  });
  const databases = {
    /** Connections for the tests' own queries. */
    pool,
    /** Returns the URL of a new, empty database. */
    async create(): Promise<string> {
      const name = `stayhook_test_${randomBytes(6).toString("hex")}`;
      names.push(name);
      await pool.query(`CREATE DATABASE ${name}`);
      const database = new URL(url);
      database.pathname = `/${name}`;
      return database.href;
    },
    async store(options: Omit<MysqlStoreOptions, "pool"> = {}) {
      return mysqlStore({ url: await databases.create(), ...options });
    },
  };
  return databases;
}
