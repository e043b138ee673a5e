// The store's contract in databases of other charsets. CI plays the cases with unusual texts, the soak plays all.

import mysql from "mysql2/promise";
import { describe, expect, test, vi } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { isSoak } from "../../support/soak.ts";
import { createDatabases, describeMysql } from "./support.ts";

// The cases wait most of the time.
vi.setConfig({ maxConcurrency: 20 });

/** Cases that keep, compare or order texts. */
const TEXTS =
  /as it was added|differ only in case|any characters|in the order of their refs|writes events and snapshots|reads its value|equal snapshot|replace its own/;

describeMysql("the contract in a database of another charset", () => {
  const databases = createDatabases();

  describe.each(["latin1", "utf8mb3", "greek", "sjis", "ucs2"])("%s", (charset) => {
    /** Empty databases. */
    const free: string[] = [];
    async function emptyDatabase(): Promise<string> {
      const url = free.pop();
      if (url !== undefined) return url;
      const created = await databases.create();
      const name = new URL(created).pathname.slice(1);
      await databases.pool.query(`ALTER DATABASE ${name} CHARACTER SET ${charset}`);
      return created;
    }
    const casesOn = (url: () => string) => {
      const open = () =>
        mysqlStore({ url: url(), maxConnections: 2, commandTimeout: 60_000, pollInterval: 10 });
      return storeContract(open, {
        unit: 500,
        another: open,
        async reopen(store) {
          await store.close();
          return open();
        },
      });
    };
    const names = casesOn(() => expect.fail("no database")).map(({ name }) => name);
    const played = isSoak ? names : names.filter((name) => TEXTS.test(name));

    test("has cases", () => expect(played.length).toBeGreaterThan(7));

    test.concurrent.each(played)("%s", async (name) => {
      const url = await emptyDatabase();
      await casesOn(() => url)
        .find((each) => each.name === name)!
        .run();
      const connection = await mysql.createConnection({ uri: url, multipleStatements: true });
      await connection.query(
        "DELETE FROM stayhook_events; DELETE FROM stayhook_records; DELETE FROM stayhook_meta WHERE name <> 'schema'",
      );
      await connection.end();
      free.push(url);
    });
  });
});
