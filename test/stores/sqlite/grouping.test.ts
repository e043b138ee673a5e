import { spawn } from "node:child_process";
import { once } from "node:events";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test, vi } from "vitest";
import { StayhookError } from "../../../src/errors.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createFiles, stopClock } from "./support.ts";

const files = createFiles();

/** Makes a store. The test can watch its transactions, and can make them fail. */
function watched(busyTimeout = 300) {
  const db = new DatabaseSync(files.path());
  const store = sqliteStore(db, { durability: "process-crash", busyTimeout });
  const said: string[] = [];
  const exec = db.exec.bind(db);
  let before: (sql: string) => void = () => {};
  db.exec = (sql) => {
    before(sql);
    exec(sql);
    said.push(sql);
  };
  return {
    db,
    store,
    said,
    commits: () => said.filter((sql) => sql === "COMMIT").length,
    beforeExec(run: (sql: string) => void) {
      before = run;
    },
    /** Returns the number of events that another connection sees. */
    onDisk() {
      const other = new DatabaseSync(db.prepare("PRAGMA database_list").get()?.file as string);
      const { n } = other.prepare("SELECT count(*) AS n FROM stayhook_events").get() as { n: number };
      other.close();
      return n;
    },
  };
}

const sqliteError = (errcode: number | undefined, message: string) =>
  Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode, errstr: message });

describe("calls of the same moment", () => {
  test("share one transaction: add, claim, renew and settle", async () => {
    stopClock();
    const { store, commits } = watched();
    await Promise.all(["A", "B", "C"].map((name) => store.add(eventOf(`booking:${name}`))));
    expect(commits()).toBe(1);
    const [first, second] = await store.claim({ ...CLAIM, limit: 2 });
    expect(commits()).toBe(2);
    const all = await Promise.all([
      store.add(eventOf()),
      store.settle(first!, DONE),
      store.renew([second!], 1000),
      store.claim(CLAIM),
    ]);
    expect(commits()).toBe(3);
    expect(all).toMatchObject(["added", true, [second], [{ attempts: 1 }, { attempts: 1 }]]);
    await store.close();
  });

  test("do not resolve before they are on disk", async () => {
    const { store, onDisk, beforeExec } = watched();
    let resolved = 0;
    let commits = 0;
    beforeExec((sql) => {
      if (sql !== "COMMIT") return;
      commits += 1;
      expect(resolved).toBeLessThanOrEqual(onDisk());
    });
    const adds = Array.from({ length: 10 }, () =>
      store.add(eventOf()).then(() => {
        resolved += 1;
        expect(onDisk()).toBeGreaterThanOrEqual(resolved);
      }),
    );
    await Promise.all(adds);
    expect(commits).toBeGreaterThan(0);
    await store.close();
  });

  test("are split into several transactions if they are many, and other code runs in between", async () => {
    const { store, commits } = watched();
    let turns = 0;
    let over = false;
    const count = () => {
      turns += 1;
      if (!over) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(Array.from({ length: 2000 }, () => store.add(eventOf(null))));
    over = true;
    expect(commits()).toBeGreaterThanOrEqual(Math.ceil(2000 / 256));
    expect(turns).toBeGreaterThanOrEqual(commits() - 1);
    expect(await store.counts()).toMatchObject({ pending: 2000 });
    await store.close();
  });

  test("are split after a call that takes long", async () => {
    const { store, commits } = watched();
    await Promise.all([1, 2, 3].map(() => store.add(eventOf(null))));
    const claims = await store.claim(CLAIM);
    const before = commits();
    const spin = () => {
      const end = performance.now() + 15;
      while (performance.now() < end);
    };
    await Promise.all(claims.map((claim) => store.settle(claim, { ...DONE, writes: [spin] })));
    expect(commits() - before).toBe(3);
    await store.close();
  });
});

describe("while the file is busy", () => {
  test("calls wait for another process, and do not block timers or reads", async () => {
    const { store, db } = watched(60_000);
    const path = String(db.prepare("PRAGMA database_list").get()?.file);
    const script = `const db = new (require("node:sqlite").DatabaseSync)(process.argv[1]);
      db.exec("PRAGMA busy_timeout = 5000; BEGIN EXCLUSIVE"); console.log("locked"); process.stdin.resume().on("end", () => db.close())`;
    const child = spawn(process.execPath, ["-e", script, path], { stdio: ["pipe", "pipe", "ignore"] });
    await once(child.stdout, "data");
    let settled = false;
    const added = store.add(eventOf()).finally(() => {
      settled = true;
    });
    // While the store waits, timers run and reads are answered.
    for (let turn = 0; turn < 5; turn++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      expect(await store.counts()).toMatchObject({ pending: 0 });
    }
    expect(settled).toBe(false);
    child.stdin.end();
    expect(await added).toBe("added");
    await store.close();
  });

  test.each([
    [5, "SQLITE_BUSY", "busy"],
    [6, "SQLITE_LOCKED", "busy"],
    [261, "SQLITE_BUSY_RECOVERY", "busy"],
    [undefined, "which Deno leaves out", "database is locked"],
    [undefined, "which Deno leaves out", "database table is locked: events"],
  ])("a call with error code %s, %s, is tried again", async (errcode, _, message) => {
    const { store, beforeExec } = watched(60_000);
    let failures = 3;
    beforeExec((sql) => {
      if (sql === "BEGIN IMMEDIATE" && failures-- > 0) throw sqliteError(errcode, message);
    });
    expect(await store.add(eventOf())).toBe("added");
    expect(failures).toBe(-1);
    await store.close();
  });

  test.each([
    ["is tried again", 3, { status: "fulfilled", value: expect.objectContaining({ pending: 0 }) }],
    [
      "rejects after busyTimeout",
      Number.POSITIVE_INFINITY,
      { status: "rejected", reason: expect.any(StayhookError) },
    ],
  ])("a read %s", async (_, failures, answer) => {
    const db = new DatabaseSync(files.path());
    const prepare = db.prepare.bind(db);
    let left = failures;
    db.prepare = (sql) => {
      const statement = prepare(sql);
      const all = statement.all.bind(statement);
      if (!sql.includes("stayhook_counts")) return statement;
      return Object.assign(statement, {
        all: () => {
          if (left-- > 0) throw sqliteError(5, "database is locked");
          return all();
        },
      });
    };
    const store = sqliteStore(db, { busyTimeout: 200 });
    expect(await Promise.allSettled([store.counts()])).toEqual([answer]);
    await store.close();
    db.close();
  });

  test("calls reject after busyTimeout, and later calls work again", async () => {
    const { store, db } = watched();
    const other = new DatabaseSync(db.prepare("PRAGMA database_list").get()?.file as string);
    other.exec("BEGIN IMMEDIATE");
    const start = performance.now();
    const answers = await Promise.allSettled([store.add(eventOf()), store.add(eventOf())]);
    expect(performance.now() - start).toBeGreaterThan(290);
    for (const answer of answers) {
      expect(answer).toMatchObject({
        status: "rejected",
        reason: { name: "StayhookError", message: expect.stringContaining("database is locked") },
      });
    }
    other.exec("ROLLBACK");
    other.close();
    expect(await store.add(eventOf())).toBe("added");
    await store.close();
  });

  test("calls wait for the user's open transaction on the connection, and do not change it", async () => {
    const { store, db } = watched();
    db.exec("CREATE TABLE nights (day TEXT)");
    db.exec("BEGIN; INSERT INTO nights VALUES ('2026-03-01')");
    const added = store.add(eventOf());
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(db.prepare("SELECT count(*) AS n FROM nights").get()).toEqual({ n: 1 });
    db.exec("ROLLBACK");
    expect(await added).toBe("added");
    expect(db.prepare("SELECT count(*) AS n FROM nights").get()).toEqual({ n: 0 });
    await store.close();
  });

  test("close waits for waiting calls", async () => {
    const { store, db } = watched();
    const other = new DatabaseSync(db.prepare("PRAGMA database_list").get()?.file as string);
    other.exec("BEGIN IMMEDIATE");
    const added = store.add(eventOf());
    const closed = store.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    other.exec("ROLLBACK");
    other.close();
    await closed;
    expect(await added).toBe("added");
  });
});

test("events are recorded while the user has fake timers", async () => {
  const { store } = watched();
  vi.useFakeTimers();
  try {
    expect(await store.add(eventOf())).toBe("added");
  } finally {
    vi.useRealTimers();
  }
  await store.close();
});
