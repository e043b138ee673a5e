import { execFileSync } from "node:child_process";
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
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { InvalidArgumentError, StayhookError } from "../../../src/errors.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
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
    ["file:events.db", "database: must be a path, not a URL; remove `file:`"],
    ["sqlite:events.db", "database: must be a path, not a URL; remove `sqlite:`"],
    [
      "events.db\r",
      "database: ends in white space. If it is from an env file, save that file with LF line ends, not CRLF",
    ],
    [
      "events.db ",
      "database: ends in white space. If it is from an env file, save that file with LF line ends, not CRLF",
    ],
    [
      ":memory:\n",
      "database: ends in white space. If it is from an env file, save that file with LF line ends, not CRLF",
    ],
    [undefined, "database: must be the path of a file, or a DatabaseSync of node:sqlite"],
    [null, "database: must be the path of a file, or a DatabaseSync of node:sqlite"],
    [{}, "database: must be the path of a file, or a DatabaseSync of node:sqlite"],
    [
      // A database of better-sqlite3.
      { prepare() {}, exec() {}, pragma() {}, transaction() {}, name: "events.db" },
      "database: is a database of another package, such as better-sqlite3. Pass the path of a file that only sqliteStore and node:sqlite open in this process, or a DatabaseSync of node:sqlite: two SQLite libraries on one file in a process lose events. Write to your own tables in event.atomically, or keep them in another process or file",
    ],
  ])("%j is rejected as a database", (database, message) => {
    const error = errorOf(() => sqliteStore(database as string));
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error.message).toBe(message);
  });

  test("the error names invalid options, and no file is created", () => {
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

  test("an option that is undefined has its default", async () => {
    expect(() => sqliteStore(files.path(), { busyTimeout: "2s" })).not.toThrow();
    const store = sqliteStore(files.path(), { durability: undefined, busyTimeout: undefined });
    await store.close();
  });
});

describe("the file", () => {
  test("only the owner can read the database file and the files beside it", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    await store.add(eventOf());
    for (const suffix of ["", "-wal", "-shm"]) expect(statSync(path + suffix).mode & 0o777).toBe(0o600);
    await store.close();
  });

  test("keeps the file mode that it already has", async () => {
    const path = files.path();
    writeFileSync(path, "");
    chmodSync(path, 0o640);
    await sqliteStore(path).close();
    expect(statSync(path).mode & 0o777).toBe(0o640);
  });

  test("has no write-ahead log after close", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    await store.add(eventOf());
    await store.close();
    expect(existsSync(`${path}-wal`)).toBe(false);
  });

  test("causes an error if its directory is missing, and no directory is created", () => {
    const path = join(files.directory, "missing", "events.db");
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toBe(
      `sqliteStore (${path}): the database cannot be used: the directory ${dirname(path)} does not exist. Create the directory first`,
    );
    expect(existsSync(dirname(path))).toBe(false);
  });

  test("causes an error if it is a directory", () => {
    const path = files.path();
    mkdirSync(path);
    expect(errorOf(() => sqliteStore(path))).toMatchObject({
      name: "StayhookError",
      message: expect.stringContaining("the path is a directory or device, not a file"),
    });
  });

  test("causes an error if it is not a database, and is not changed", () => {
    const path = files.path();
    writeFileSync(path, "not a database, ".repeat(1000));
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toContain("file is not a database");
    expect(error.cause).toBeInstanceOf(Error);
    expect(statSync(path).size).toBe(16_000);
  });

  test("causes an error at the start if it is a damaged database", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    writeFileSync(path, readFileSync(path).fill(7, 100));
    expect(errorOf(() => sqliteStore(path))).toBeInstanceOf(StayhookError);
  });

  test("causes an error at the start if it is read-only", async () => {
    const path = files.path();
    await sqliteStore(path).close();
    const readOnly = new DatabaseSync(path, { readOnly: true });
    const error = errorOf(() => sqliteStore(readOnly));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toContain("readonly");
    readOnly.close();
  });
});

describe("a file that another process locks", () => {
  test("is tried again with pauses, until busyTimeout has passed", () => {
    const path = files.path();
    const [db, other] = [new DatabaseSync(path), new DatabaseSync(path)];
    onTestFinished(() => {
      db.close();
      other.close();
    });
    sqliteStore(other);
    const tried = vi.spyOn(db, "exec");
    const tries = () => tried.mock.calls.filter(([sql]) => sql === "BEGIN IMMEDIATE").length;
    other.exec("BEGIN IMMEDIATE");
    expect(errorOf(() => sqliteStore(db, { busyTimeout: 200 })).message).toContain("database is locked");
    // Without pauses, it would be thousands.
    expect(tries()).toBeGreaterThan(1);
    expect(tries()).toBeLessThan(25);
    tried.mockClear();
    expect(errorOf(() => sqliteStore(db, { busyTimeout: 0 })).message).toContain("database is locked");
    expect(tries()).toBe(1);
    other.exec("ROLLBACK");
    expect(() => sqliteStore(db, { busyTimeout: 0 })).not.toThrow();
  });
});

describe("the settings of SQLite", () => {
  test.each([
    [undefined, 2],
    ["power-loss", 2],
    ["process-crash", 1],
  ] as const)("durability %s sets synchronous to %i", async (durability, synchronous) => {
    const db = new DatabaseSync(files.path());
    db.exec("PRAGMA busy_timeout = 1234");
    const store = sqliteStore(db, { durability });
    expect(pragma(db, "synchronous")).toBe(synchronous);
    await store.add(eventOf());
    await store.claim(CLAIM);
    // The user's own commits wait for the disk, too, although the claim has not.
    expect(pragma(db, "synchronous")).toBe(synchronous);
    expect(pragma(db, "journal_mode")).toBe("wal");
    expect(pragma(db, "busy_timeout")).toBe(0);
    await store.close();
    db.close();
  });
});

describe("the user's own DatabaseSync", () => {
  test("keeps temporary tables in memory from then on, and those that it has", async () => {
    const [empty, used] = [new DatabaseSync(files.path()), new DatabaseSync(files.path())];
    used.exec("CREATE TEMP TABLE nights (day TEXT)");
    for (const db of [empty, used]) await sqliteStore(db).close();
    expect(pragma(empty, "temp_store")).toBe(2);
    expect(used.prepare("SELECT count(*) AS n FROM nights").get()).toEqual({ n: 0 });
    for (const db of [empty, used]) db.close();
  });

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

  test("makes calls reject if the user closes it too early, but the store's close resolves", async () => {
    const db = new DatabaseSync(files.path());
    const store = sqliteStore(db);
    db.close();
    await expect(store.add(eventOf())).rejects.toThrow("database is not open");
    await expect(store.counts()).rejects.toThrow();
    await store.close();
  });
});

describe("the schema", () => {
  /** Makes a file as an early version left it, with the parts that matter here. */
  function oldFile(): string {
    const path = files.path();
    const db = new DatabaseSync(path);
    db.exec(
      "CREATE TABLE stayhook_events (id); CREATE TABLE stayhook_statuses (ref); PRAGMA user_version = 1",
    );
    db.close();
    return path;
  }

  test("of an earlier version is rejected, and the file is not changed or kept open", () => {
    const path = oldFile();
    const before = readFileSync(path);
    const error = errorOf(() => sqliteStore(path));
    expect(error).toBeInstanceOf(StayhookError);
    expect(error.message).toContain("stayhook 1.2 or an earlier version made the tables in the file");
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
      ALTER TABLE stayhook_records ADD COLUMN later TEXT;
      CREATE INDEX stayhook_events_newer ON stayhook_events (later, received_at);
      CREATE TABLE stayhook_newer (a);
      UPDATE stayhook_meta SET value = '4' WHERE name = 'schema'`);
    const store = sqliteStore(path);
    const event = eventOf();
    expect(await store.add(event)).toBe("added");
    const [claim] = await store.claim(CLAIM);
    expect(await store.settle(claim!, DONE)).toBe(true);
    expect(await store.replay({ eventId: event.eventId })).toBe(1);
    expect(await store.get(event.eventId)).not.toHaveProperty("later");
    expect(await store.snapshotOf("booking:A")).toMatchObject({ sequence: 1 });
    await store.close();
    expect(db.prepare("SELECT value FROM stayhook_meta WHERE name = 'schema'").get()).toEqual({ value: "4" });
    db.close();
  });

  test("does not change the file's user_version", async () => {
    const db = new DatabaseSync(files.path());
    db.exec("CREATE TABLE nights (day TEXT); PRAGMA user_version = 7");
    await sqliteStore(db).close();
    expect(pragma(db, "user_version")).toBe(7);
    db.close();
  });
});

describe("a lost database file", () => {
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
    ["was deleted", (path: string) => rmSync(path), "the file was deleted or moved while the store was open"],
    [
      "was replaced",
      (path: string) => {
        copyFileSync(path, `${path}.new`);
        renameSync(`${path}.new`, path);
      },
      "the file was replaced by another file while the store was open",
    ],
  ])("that %s rejects all later reads and writes", async (_, act, message) => {
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

  /** A store with 20 events in its log, and a copy of the file as it was before. */
  async function withBackup() {
    const path = files.path();
    await sqliteStore(path).close();
    const backup = `${path}.bak`;
    const old = sqliteStore(path);
    await old.add(eventOf());
    await old.close();
    copyFileSync(path, backup);
    const store = sqliteStore(path);
    for (let n = 0; n < 20; n += 1) await store.add(eventOf(null));
    return { path, backup, store };
  }

  test.each<[string, (files: { path: string; backup: string }) => void, string]>([
    ["the file is deleted", ({ path }) => rmSync(path), "the file was deleted or moved"],
    ["-wal is deleted", ({ path }) => rmSync(`${path}-wal`), "-wal was deleted or moved"],
    [
      "-wal is replaced",
      ({ path }) => {
        renameSync(`${path}-wal`, `${path}-old`);
        copyFileSync(`${path}-old`, `${path}-wal`);
      },
      "-wal was replaced by another file",
    ],
    [
      "-wal and -shm are deleted, and a backup is copied over the file",
      ({ path, backup }) => {
        for (const suffix of ["-wal", "-shm"]) rmSync(path + suffix);
        writeFileSync(path, readFileSync(backup));
      },
      "-wal was deleted or moved",
    ],
    [
      "a backup is copied over the file, and -wal stays",
      ({ path, backup }) => writeFileSync(path, readFileSync(backup)),
      "the file was overwritten by another program",
    ],
  ])("%s: nothing is answered any more, and close leaves the files as they are", async (_, act, message) => {
    const { path, backup, store } = await withBackup();
    act({ path, backup });
    const before = existsSync(path) && readFileSync(path);
    const refused = { name: "StayhookError", message: expect.stringContaining(message) };
    await expect(store.add(eventOf())).rejects.toMatchObject(refused);
    await expect(store.claim(CLAIM)).rejects.toMatchObject(refused);
    await expect(store.counts(), "as health() would show them").rejects.toMatchObject(refused);
    await store.close();
    expect(existsSync(path) && readFileSync(path)).toEqual(before);
  });

  test("a backup that was restored is not changed when the process ends by itself", async () => {
    const path = files.path();
    const script = `
      import { copyFileSync, rmSync } from "node:fs";
      import { sqliteStore } from ${JSON.stringify(new URL("../../../src/stores/sqlite/index.ts", import.meta.url).href)};
      const event = (eventId) => ({ eventId, ref: null, source: "webhook", topic: null, timestamp: "2026-01-01T00:00:00Z", notification: "{}" });
      const path = ${JSON.stringify(path)};
      const first = sqliteStore(path);
      await first.add(event("kept"));
      await first.close();
      copyFileSync(path, path + ".bak");
      const store = sqliteStore(path);
      await store.add(event("new"));
      rmSync(path + "-wal");
      copyFileSync(path + ".bak", path);
      await store.close();`;
    execFileSync(process.execPath, ["--input-type=module", "-e", script]);
    expect(readFileSync(path)).toEqual(readFileSync(`${path}.bak`));
  });

  test("checkpoints, other processes and the notifiers of older versions are not taken for another program", async () => {
    const path = files.path();
    const [one, two] = [sqliteStore(path), sqliteStore(path)];
    const db = new DatabaseSync(path);
    for (let n = 0; n < 30; n += 1) {
      for (const store of [one, two]) expect(await store.add(eventOf(null))).toBe("added");
      if (n % 3 === 0) db.exec("PRAGMA wal_checkpoint(PASSIVE)");
      if (n % 3 === 1) db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      if (n % 3 === 2) utimesSync(path, new Date(), new Date());
    }
    db.exec("VACUUM");
    db.close();
    expect(await one.add(eventOf(null))).toBe("added");
    await two.close();
    expect(await one.add(eventOf(null))).toBe("added");
    await one.close();
  });

  test("is not reported after a change of the file mode, or for a database in memory", async () => {
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
  test("waits for earlier calls, and rejects later calls", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    const added = store.add(eventOf());
    const closed = store.close();
    await expect(store.add(eventOf())).rejects.toThrow("The event store is closed.");
    await expect(store.list({ limit: 1 })).rejects.toThrow(StayhookError);
    await expect(store.renew([], 1)).rejects.toThrow(StayhookError);
    await expect(store.claim({ ...CLAIM, limit: 0 })).rejects.toThrow(StayhookError);
    expect(() => store.subscribe?.(() => {})).toThrow("The event store is closed.");
    expect(await added).toBe("added");
    await closed;
    const again = sqliteStore(path);
    expect(await again.counts()).toMatchObject({ pending: 1 });
    await again.close();
  });
});
