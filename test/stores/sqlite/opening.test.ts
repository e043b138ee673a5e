import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { InvalidArgumentError, StayhookError } from "../../../src/errors.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
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
      message: expect.stringContaining("the path is a directory or device, not a file"),
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

describe("the schema", () => {
  /** Makes a file as stayhook 0.1 left it, with the parts that matter here. */
  function oldFile(): string {
    const path = files.path();
    const db = new DatabaseSync(path);
    db.exec(
      "CREATE TABLE stayhook_events (id); CREATE TABLE stayhook_statuses (ref); PRAGMA user_version = 1",
    );
    db.close();
    return path;
  }

  test("of 0.1 is refused, and nothing is changed or held open", () => {
    const path = oldFile();
    const before = readFileSync(path);
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toMatch(/its tables are of stayhook 0\.1, which this version cannot read/);
    expect(existsSync(`${path}-shm`)).toBe(false);
    const db = new DatabaseSync(path);
    expect(db.prepare("SELECT count(*) AS n FROM sqlite_schema").get()).toEqual({ n: 2 });
    db.close();
    expect(readFileSync(path).length).toBe(before.length);
  });

  test("of a newer version, with more columns, indexes and tables, works", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    const db = new DatabaseSync(path);
    db.exec(`
      ALTER TABLE stayhook_events ADD COLUMN later TEXT;
      ALTER TABLE stayhook_events ADD COLUMN number INTEGER NOT NULL DEFAULT 7;
      ALTER TABLE stayhook_queue ADD COLUMN later TEXT;
      ALTER TABLE stayhook_records ADD COLUMN later TEXT;
      CREATE INDEX stayhook_events_newer ON stayhook_events (later, received_at);
      CREATE TABLE stayhook_newer (a);
      UPDATE stayhook_meta SET value = '2' WHERE name = 'schema'`);
    const store = sqliteStore(path);
    const event = eventOf();
    expect(await store.add(event)).toBe("added");
    const [claim] = await store.claim(CLAIM);
    expect(await store.settle(claim!, DONE)).toBe(true);
    expect(await store.replay({ eventId: event.eventId })).toBe(1);
    expect(await store.get(event.eventId)).not.toHaveProperty("later");
    expect(await store.recordOf("booking:A")).toMatchObject({ sequence: 1 });
    await store.close();
    expect(db.prepare("SELECT value FROM stayhook_meta WHERE name = 'schema'").get()).toEqual({ value: "2" });
    db.close();
  });

  test("is made once by connections that open a file at the same time", async () => {
    const path = files.path();
    const stores = [sqliteStore(path), sqliteStore(path)];
    await stores[0]!.add(eventOf());
    expect(await stores[1]!.counts()).toMatchObject({ pending: 1 });
    for (const store of stores) await store.close();
  });

  test("leaves the user_version of the file to the user", async () => {
    const db = new DatabaseSync(files.path());
    db.exec("CREATE TABLE nights (day TEXT); PRAGMA user_version = 7");
    await sqliteStore(db).close();
    expect(pragma(db, "user_version")).toBe(7);
    db.close();
  });
});

describe("a file that is not there any more", () => {
  const hour = 3_600_000;

  /** Moves the clock to the next check of the file. */
  function passTime() {
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() + hour);
    onTestFinished(() => {
      vi.restoreAllMocks();
    });
  }

  test.each([
    ["was deleted", (path: string) => rmSync(path), "the file was deleted or moved while it was open"],
    [
      "was replaced",
      (path: string) => {
        copyFileSync(path, `${path}.new`);
        renameSync(`${path}.new`, path);
      },
      "the file was replaced by another one while it was open",
    ],
  ])("because it %s takes no reads and no writes from then on", async (_, act, message) => {
    const path = files.path();
    const store = sqliteStore(path);
    await store.add(eventOf());
    const kept = `${path}.kept`;
    linkSync(path, kept);
    act(path);
    passTime();
    const refused = { name: "StayhookError", message: expect.stringContaining(message) };
    await expect(store.add(eventOf())).rejects.toMatchObject(refused);
    await expect(store.claim(CLAIM)).rejects.toMatchObject(refused);
    await expect(store.counts(), "as health() would show them").rejects.toMatchObject(refused);
    rmSync(path, { force: true });
    renameSync(kept, path);
    await expect(store.add(eventOf()), "the process has to be restarted").rejects.toMatchObject(refused);
    await store.close();
  });

  test("does not concern a file that is touched, or a database in memory", async () => {
    const path = files.path();
    const [store, memory] = [sqliteStore(path), sqliteStore(":memory:")];
    chmodSync(path, 0o640);
    passTime();
    expect(await store.add(eventOf())).toBe("added");
    expect(await memory.add(eventOf())).toBe("added");
    await store.close();
    await memory.close();
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
