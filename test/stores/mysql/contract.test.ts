import mysql from "mysql2/promise";
import { expect, test, vi } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { createDatabases, describeMysql } from "./support.ts";

vi.setConfig({ maxConcurrency: 30 });

const TABLES = ["stayhook_events", "stayhook_records", "stayhook_meta"];
const databases = createDatabases();
const urlOf = new WeakMap<object, string>();

function open(url: string) {
  const store = mysqlStore({ url, pollInterval: 10, maxConnections: 3, commandTimeout: 60_000 });
  urlOf.set(store, url);
  return store;
}

/** Databases with empty tables, ready for reuse. Creating one takes longer than most cases. */
const free: string[] = [];

async function empty(url: string): Promise<void> {
  const connection = await mysql.createConnection({ uri: url });
  const [tables] = await connection.query("SHOW TABLES");
  if ((tables as unknown[]).length > 0) {
    for (const table of TABLES) {
      await connection.query(
        `DELETE FROM ${table}${table === "stayhook_meta" ? " WHERE name <> 'schema'" : ""}`,
      );
    }
  }
  await connection.end();
}

describeMysql("the contract of a store", () => {
  /** The databases of each case. */
  const used = new Map<string, string[]>();
  let running = "";
  const cases = storeContract(
    async () => {
      const mine = used.get(running) ?? [];
      const url = free.pop() ?? (await databases.create());
      mine.push(url);
      return open(url);
    },
    {
      unit: 500,
      another: (store) => open(urlOf.get(store) as string),
      reopen: async (store) => {
        await store.close();
        return open(urlOf.get(store) as string);
      },
    },
  );

  test("includes the cases for shared stores", () => {
    expect(cases.length).toBeGreaterThan(100);
  });
  test.concurrent.each(cases.map(({ name, run }) => [name, run] as const))("%s", async (name, run) => {
    const mine: string[] = [];
    used.set(name, mine);
    // The case makes its store before its first await, so `running` still names this case.
    running = name;
    await run();
    for (const url of mine) await empty(url);
    free.push(...mine);
  });
});
