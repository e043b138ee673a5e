import { DatabaseSync, type StatementSync } from "node:sqlite";
import { describe, expect, test, vi } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, eventOf } from "../event.ts";
import { createFiles } from "./support.ts";

const files = createFiles();

/** All options of Node that change how statements take parameters or give rows. */
const options = {
  returnArrays: true,
  readBigInts: true,
  allowBareNamedParameters: false,
  allowUnknownNamedParameters: true,
  enableDoubleQuotedStringLiterals: true,
  enableForeignKeyConstraints: false,
  defensive: true,
};

describe("a DatabaseSync with options of the user's keeps the contract", () => {
  const create = () => sqliteStore(new DatabaseSync(":memory:", options)) as EventStore<never>;
  for (const { name, run } of storeContract(create)) test.concurrent(name, run);
});

test("a DatabaseSync with options of the user's hears of the commits of other processes", async () => {
  const path = files.path();
  const [db, other] = [new DatabaseSync(path, options), sqliteStore(path)];
  const store = sqliteStore(db);
  const wake = vi.fn();
  store.subscribe!(wake);
  await other.add(eventOf());
  await eventually(() => expect(wake).toHaveBeenCalled());
  const calls = wake.mock.calls.length;
  // A version that is always new would wake without a commit.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(wake.mock.calls.length).toBe(calls);
  await Promise.all([store.close(), other.close()]);
  expect(db.prepare("SELECT 1 AS one").get()).toEqual([1n]);
  db.close();
});

/** A later version of Node may have an option that the store does not know. */
function withRows(changed: (row: unknown) => unknown): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  const prepare = db.prepare.bind(db);
  db.prepare = (sql: string): StatementSync => {
    const statement = prepare(sql);
    const [get, all] = [statement.get.bind(statement), statement.all.bind(statement)];
    return Object.assign(statement, {
      get: (...values: never[]) => changed(get(...values)),
      all: (...values: never[]) => all(...values).map(changed),
    }) as StatementSync;
  };
  return db;
}

test("an option that changes rows, and that the store cannot undo, is an error at the start", () => {
  const db = withRows((row) => row && new Map(Object.entries(row)));
  expect(() => sqliteStore(db)).toThrow(
    "sqliteStore (the given DatabaseSync): the database cannot be used: an option of the DatabaseSync changes the form of its rows, and the store cannot undo that. Pass the path of the file, or a DatabaseSync without options",
  );
});

test("rows that lose their form later are an error of the call, not a loop", async () => {
  let isChanged = false;
  const db = withRows((row) => (isChanged ? Object.values(Object(row)) : row));
  const store = sqliteStore(db);
  await store.add(eventOf());
  isChanged = true;
  await expect(store.claim(CLAIM)).rejects.toThrow("a row of the database lacks a column");
  isChanged = false;
  await store.close();
});
