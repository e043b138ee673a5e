import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { InvalidArgumentError, StayhookError } from "../../../src/errors.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { migrate } from "../../../src/stores/sqlite/schema.ts";
import { CLAIM, DONE, eventOf } from "./event.ts";
import { createFiles } from "./support.ts";

const files = createFiles();

function pragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
}

function errorOf(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}

describe("arguments", () => {
  test.each([
    ["", "database: must be the path of a file"],
    ["a\0b", "database: must be the path of a file"],
    ["file:events.db", "database: must be a path, not a URL: leave out file:"],
    [undefined, "database: must be the path of a file, or a DatabaseSync of node:sqlite"],
    [null, "database: must be the path of a file, or a DatabaseSync of node:sqlite"],
    [{}, "database: must be the path of a file, or a DatabaseSync of node:sqlite"],
  ])("%j is no database", (database, message) => {
    const error = errorOf(() => sqliteStore(database as string));
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error.message).toBe(message);
  });

  test("options are refused by name, before a file is made", () => {
    const path = files.path();
    const options = { durability: "full", busyTimeout: -1 } as unknown as { busyTimeout: number };
    expect(() => sqliteStore(path, options)).toThrow(
      'durability: must be "power-loss" or "process-crash"; busyTimeout: must be a number of ms, 0 or more',
    );
    for (const busyTimeout of [Number.NaN, Number.POSITIVE_INFINITY, "5"] as number[]) {
      expect(() => sqliteStore(path, { busyTimeout })).toThrow(InvalidArgumentError);
    }
    expect(existsSync(path)).toBe(false);
  });

  test("undefined is the default", async () => {
    const store = sqliteStore(files.path(), { durability: undefined, busyTimeout: undefined });
    await store.close();
  });
});

describe("the file", () => {
  test("is for its owner alone, and so are those beside it", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    await store.add(eventOf());
    for (const suffix of ["", "-wal", "-shm"]) expect(statSync(path + suffix).mode & 0o777).toBe(0o600);
    await store.close();
  });

  test("keeps the mode that it has", async () => {
    const path = files.path();
    writeFileSync(path, "");
    chmodSync(path, 0o640);
    await sqliteStore(path).close();
    expect(statSync(path).mode & 0o777).toBe(0o640);
  });

  test("has its write-ahead log taken in at the end", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    await store.add(eventOf());
    await store.close();
    expect(existsSync(`${path}-wal`)).toBe(false);
  });

  test("in a directory that is not there is an error that says so, and makes none", () => {
    const path = join(files.directory, "missing", "events.db");
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toBe(
      `sqliteStore (${path}): the database cannot be used: the directory ${dirname(path)} does not exist; create it first`,
    );
    expect(existsSync(dirname(path))).toBe(false);
  });

  test("that is a directory is an error", () => {
    const path = files.path();
    mkdirSync(path);
    expect(errorOf(() => sqliteStore(path))).toMatchObject({
      name: "StayhookError",
      message: expect.stringContaining("it is not a file"),
    });
  });

  test("that is no database is an error, and stays as it is", () => {
    const path = files.path();
    writeFileSync(path, "not a database, ".repeat(1000));
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toContain("file is not a database");
    expect(error.cause).toBeInstanceOf(Error);
    expect(statSync(path).size).toBe(16_000);
  });

  test("that is a database, but damaged, is an error at the start", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    writeFileSync(path, readFileSync(path).fill(7, 100));
    expect(errorOf(() => sqliteStore(path))).toBeInstanceOf(StayhookError);
  });

  test("that cannot be written is an error at the start", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    const readOnly = new DatabaseSync(path, { readOnly: true });
    const error = errorOf(() => sqliteStore(readOnly));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toContain("readonly");
    readOnly.close();
  });
});

describe("what SQLite is told", () => {
  test.each([
    [undefined, 2],
    ["power-loss", 2],
    ["process-crash", 1],
  ] as const)("durability %s is synchronous = %i", async (durability, synchronous) => {
    const db = new DatabaseSync(files.path());
    db.exec("PRAGMA busy_timeout = 1234");
    const store = sqliteStore(db, { durability });
    expect(pragma(db, "synchronous")).toBe(synchronous);
    expect(pragma(db, "journal_mode")).toBe("wal");
    expect(pragma(db, "busy_timeout")).toBe(0);
    await store.close();
    db.close();
  });
});

describe("a DatabaseSync of the user's own", () => {
  test("keeps the user's tables, and stays open", async () => {
    const db = new DatabaseSync(files.path());
    db.exec("CREATE TABLE nights (day TEXT); INSERT INTO nights VALUES ('2026-03-01')");
    const store = sqliteStore(db);
    await store.add(eventOf());
    await store.close();
    expect(statSync(`${db.prepare("PRAGMA database_list").get()?.file}-wal`).size).toBe(0);
    expect(db.prepare("SELECT day FROM nights").get()).toEqual({ day: "2026-03-01" });
    const again = sqliteStore(db);
    expect(await again.counts()).toMatchObject({ pending: 1 });
    await again.close();
    db.close();
  });

  test("may be in memory", async () => {
    const db = new DatabaseSync(":memory:");
    const store = sqliteStore(db);
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    expect(await store.settle(claim!, DONE)).toBe(true);
    await store.close();
    db.close();
  });

  test("that the user closes too early makes calls reject, and close does not", async () => {
    const db = new DatabaseSync(files.path());
    const store = sqliteStore(db);
    db.close();
    await expect(store.add(eventOf())).rejects.toThrow("database is not open");
    await expect(store.counts()).rejects.toThrow();
    await store.close();
  });
});

describe("the schema's version", () => {
  test("a newer one is refused, and nothing is changed", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    const db = new DatabaseSync(path);
    db.exec("PRAGMA user_version = 999");
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toMatch(
      /written by a newer version of stayhook .*user_version is 999.* update stayhook/,
    );
    expect(pragma(db, "user_version")).toBe(999);
    db.close();
  });

  test("what is refused is not held open", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    const db = new DatabaseSync(path);
    db.exec("PRAGMA user_version = 999");
    db.close();
    expect(() => sqliteStore(path)).toThrow(StayhookError);
    expect(existsSync(`${path}-shm`)).toBe(false);
  });

  test("one that is somebody else's is refused, and nothing is changed", () => {
    const db = new DatabaseSync(files.path());
    db.exec("CREATE TABLE nights (day TEXT); PRAGMA user_version = 1");
    const error = errorOf(() => sqliteStore(db));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toContain("its user_version is 1, but it has no tables of stayhook's");
    expect(db.prepare("SELECT count(*) AS n FROM sqlite_schema").get()).toEqual({ n: 1 });
    db.close();
  });

  test("an older one is brought up step by step, once", () => {
    const db = new DatabaseSync(":memory:");
    const first = "CREATE TABLE stayhook_events (a)";
    const second = "ALTER TABLE stayhook_events ADD COLUMN b; INSERT INTO stayhook_events VALUES (1, 2)";
    migrate(db, [first]);
    expect(pragma(db, "user_version")).toBe(1);
    migrate(db, [first, second]);
    migrate(db, [first, second]);
    expect(pragma(db, "user_version")).toBe(2);
    expect(db.prepare("SELECT * FROM stayhook_events").all()).toEqual([{ a: 1, b: 2 }]);
    db.close();
  });

  test("a step that fails leaves all as it was", () => {
    const db = new DatabaseSync(":memory:");
    const first = "CREATE TABLE stayhook_events (a)";
    migrate(db, [first]);
    const failing = "ALTER TABLE stayhook_events ADD COLUMN b; SELECT no_such_column FROM stayhook_events";
    expect(() => migrate(db, [first, failing])).toThrow("no_such_column");
    expect(pragma(db, "user_version")).toBe(1);
    expect(pragma(db, "table_info(stayhook_events)")).toBe(0);
    expect(db.prepare("PRAGMA table_info(stayhook_events)").all()).toHaveLength(1);
    db.close();
  });
});

describe("close", () => {
  test("lets what was asked for before it end, and refuses what comes after", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    const added = store.add(eventOf());
    const closed = store.close();
    await expect(store.add(eventOf())).rejects.toThrow("The store is closed.");
    await expect(store.list({ limit: 1 })).rejects.toThrow(StayhookError);
    await expect(store.renew([], 1)).rejects.toThrow(StayhookError);
    await expect(store.claim({ ...CLAIM, limit: 0 })).rejects.toThrow(StayhookError);
    expect(() => store.subscribe?.(() => {})).toThrow("The store is closed.");
    expect(await added).toBe("added");
    await closed;
    const again = sqliteStore(path);
    expect(await again.counts()).toMatchObject({ pending: 1 });
    await again.close();
  });
});
