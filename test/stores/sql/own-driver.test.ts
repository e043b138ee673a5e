import { DatabaseSync } from "node:sqlite";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import {
  runAsync,
  runSync,
  type SqlDialect,
  type SqlDriver,
  type SqlNotifier,
  type SqlSteps,
  type SqlValue,
  sqliteDialect,
  sqlStore,
} from "../../../src/stores/index.ts";
import { migrate, versionOf } from "../../../src/stores/sql/sql-schema.ts";
import { executeOn } from "../../../src/stores/sqlite/sqlite-driver.ts";

/** A minimal driver. It is asynchronous, returns big integers and text as bytes, and gives no id of an inserted row. */
function createDriver(notifier?: SqlNotifier) {
  const db = new DatabaseSync(":memory:");
  let last: Promise<unknown> = Promise.resolve();
  let transactions = 0;

  const execute = async (sql: string, params: readonly SqlValue[], query: boolean) => {
    await turn();
    const statement = db.prepare(sql);
    if (!query) return { rows: [], changes: Number(statement.run(...params).changes) };
    return { rows: statement.all(...params).map(foreign), changes: 0 };
  };
  const attempt = async <T>(steps: SqlSteps<T>, end: "COMMIT" | "ROLLBACK"): Promise<T> => {
    db.exec("BEGIN");
    try {
      const value = await runAsync(steps, (step) => {
        if ("writes" in step) throw new Error("the driver is not transactional");
        return execute(step.sql, step.params, step.query);
      });
      db.exec(end);
      return value;
    } catch (error) {
      db.exec("ROLLBACK");
      throw error;
    }
  };
  const driver: SqlDriver = {
    transaction(steps) {
      const result = last.then(async () => {
        transactions += 1;
        // Act as after a deadlock: run the steps, roll back, and run the steps again.
        if (transactions % 3 === 0) await attempt(steps(), "ROLLBACK").catch(() => {});
        return attempt(steps(), "COMMIT");
      });
      last = result.catch(() => {});
      return result;
    },
    async close() {
      await last;
      db.close();
    },
    ...(notifier && { notifier }),
  };
  return { db, driver };
}

function foreign(row: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(row).map(([name, value]) => {
    if (typeof value === "number") return [name, BigInt(value)];
    return [name, typeof value === "string" ? new TextEncoder().encode(value) : value];
  });
  return Object.fromEntries(entries);
}

/** Uses numbered placeholders and the database's clock. Without `counts`, the store counts the events themselves. */
const dialect: SqlDialect = {
  ...sqliteDialect,
  counts: undefined,
  placeholder: (number) => `?${number}`,
  clock: "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now",
};

const event = {
  eventId: "00000000-0000-4000-8000-000000000001",
  ref: "booking:A",
  source: "webhook",
  topic: null,
  timestamp: "2026-03-01T10:00:00.000Z",
  notification: "{}",
} as const;

describe("a custom driver passes the contract", () => {
  for (const { name, run } of storeContract(() => sqlStore(createDriver().driver, dialect), { unit: 100 })) {
    test.concurrent(name, run);
  }
});

test("the store creates its tables at the first use, and tries again after a failure", async () => {
  const { driver } = createDriver();
  let failures = 1;
  const transaction = vi.fn((steps: () => never, failing: string): Promise<never> => {
    if (failures-- > 0) return Promise.reject(new Error("out of reach"));
    return driver.transaction(steps, failing);
  });
  const store = sqlStore({ ...driver, transaction: transaction as SqlDriver["transaction"] }, dialect);
  expect(transaction).not.toHaveBeenCalled();
  await expect(store.add(event)).rejects.toThrow("out of reach");
  expect(await Promise.all([store.add(event), store.counts()])).toMatchObject(["added", {}]);
  expect(transaction.mock.calls.map(([, failing]) => failing)).toEqual([
    "the tables could not be read",
    "the tables could not be read",
    "the tables could not be created",
    "events could not be read",
    "the event could not be recorded",
  ]);
  await store.close();
});

test("tables that another process creates while a store looks for them are not those of an earlier version", () => {
  const tables = { dialect: sqliteDialect, place: "the file" };
  for (const createdAfter of [1, 2]) {
    const db = new DatabaseSync(":memory:");
    const run = executeOn(db);
    let statements = 0;
    const version = runSync(versionOf(tables), (step) => {
      const result = run(step);
      statements += 1;
      if (statements === createdAfter) runSync(migrate(tables), run);
      return result;
    });
    expect(version).toBe(0);
    db.close();
  }
});

test("the store rejects the tables of stayhook 0.1", async () => {
  const { db, driver } = createDriver();
  db.exec("CREATE TABLE stayhook_events (id)");
  const store = sqlStore(driver, dialect);
  await expect(store.add(event)).rejects.toThrow("stayhook 1.2 or an earlier version made the tables");
  await store.close();
});

test("the store notifies after commits, and listens only while it has subscribers", async () => {
  let heard = () => {};
  const stop = vi.fn();
  const notify = vi.fn();
  const listen = vi.fn((wake: () => void) => {
    heard = wake;
    return stop;
  });
  const store = sqlStore(createDriver({ notify, listen }).driver, dialect);
  await store.add(event);
  await store.add(event);
  expect(notify).toHaveBeenCalledTimes(1);
  expect(listen).not.toHaveBeenCalled();
  const woken = vi.fn();
  const [first, second] = [store.subscribe!(woken), store.subscribe!(() => {})];
  expect(listen).toHaveBeenCalledTimes(1);
  heard();
  expect(woken).toHaveBeenCalledTimes(1);
  first();
  expect(stop).not.toHaveBeenCalled();
  second();
  expect(stop).toHaveBeenCalledTimes(1);
  store.subscribe!(() => {});
  await store.close();
  expect(stop).toHaveBeenCalledTimes(2);
});
