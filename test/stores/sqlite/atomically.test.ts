import { DatabaseSync } from "node:sqlite";
import { describe, expect, test, vi } from "vitest";
import { InvalidWriteError } from "../../../src/errors.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, DONE, eventOf } from "./event.ts";
import { createFiles, stopClock } from "./support.ts";

const files = createFiles();

/** Makes a store with a table of the user, and claims `count` events of different records. */
async function claimed(count: number) {
  const db = new DatabaseSync(files.path());
  db.exec("CREATE TABLE nights (event TEXT)");
  const store = sqliteStore(db, { durability: "process-crash" });
  await Promise.all(Array.from({ length: count }, () => store.add(eventOf(null))));
  const claims = await store.claim(CLAIM);
  const nights = () =>
    db
      .prepare("SELECT event FROM nights ORDER BY rowid")
      .all()
      .map(({ event }) => event);
  const done = (...writes: ((tx: DatabaseSync) => void)[]) => ({ ...DONE, writes });
  return { db, store, claims, nights, done };
}

const night = (event: string) => (tx: DatabaseSync) =>
  void tx.prepare("INSERT INTO nights VALUES (?)").run(event);
const fail = (): never => {
  throw new Error("a write's own");
};

test("writes get the connection, and are committed together with the outcome", async () => {
  const { db, store, claims, nights, done } = await claimed(1);
  const write = vi.fn();
  const settled = store.settle(claims[0]!, done(write, night("one"), night("two")));
  expect(nights()).toEqual([]);
  expect(await settled).toBe(true);
  expect(write.mock.calls[0]?.[0]).toBe(db);
  expect(nights()).toEqual(["one", "two"]);
  await store.close();
});

test("a store on a path passes its own connection to the writes", async () => {
  const store = sqliteStore(files.path());
  await store.add(eventOf());
  const [claim] = await store.claim(CLAIM);
  const write = vi.fn();
  await store.settle(claim!, { ...DONE, writes: [write] });
  expect(write.mock.calls[0]?.[0]).toBeInstanceOf(DatabaseSync);
  await store.close();
});

test("a write that throws undoes only the writes of its event, not the rest of the group", async () => {
  const { store, claims, nights, done } = await claimed(3);
  const [first, second, third] = claims;
  const ran = vi.fn();
  const answers = await Promise.allSettled([
    store.settle(first!, done(night("first"))),
    store.settle(second!, done(night("second"), fail, ran)),
    store.settle(third!, done(night("third"))),
    store.add(eventOf()),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
  expect(answers[1]).toEqual({ status: "rejected", reason: new Error("a write's own") });
  expect(ran).not.toHaveBeenCalled();
  expect(nights()).toEqual(["first", "third"]);
  expect(await store.counts()).toMatchObject({ done: 2, processing: 1, pending: 1 });
  expect(await store.settle(second!, done(night("second")))).toBe(true);
  expect(nights()).toEqual(["first", "third", "second"]);
  await store.close();
});

test("writes do not run after the lease is lost", async () => {
  const { store, claims, done } = await claimed(1);
  const ran = vi.fn();
  await store.settle(claims[0]!, { state: "released" });
  await store.claim(CLAIM);
  expect(await store.settle(claims[0]!, done(ran))).toBe(false);
  expect(ran).not.toHaveBeenCalled();
  await store.close();
});

test("writes run again after a failed commit, and are committed once", async () => {
  stopClock();
  const { db, store, claims, nights, done } = await claimed(2);
  const exec = db.exec.bind(db);
  let failures = 1;
  db.exec = (sql) => {
    if (sql === "COMMIT" && failures-- > 0) {
      throw Object.assign(new Error("disk I/O error"), { errcode: 10, errstr: "disk I/O error" });
    }
    exec(sql);
  };
  const ran: string[] = [];
  const outcome = (name: string) => done(() => void ran.push(name), night(name));
  const settled = await Promise.all([
    store.settle(claims[0]!, outcome("one")),
    store.settle(claims[1]!, outcome("two")),
  ]);
  expect(settled).toEqual([true, true]);
  expect(ran).toEqual(["one", "two", "one", "two"]);
  expect(nights()).toEqual(["one", "two"]);
  await store.close();
});

describe("a write that SQLite refuses", () => {
  test.each([
    ["breaks a unique index", night("twice"), "UNIQUE constraint failed"],
    [
      "uses a missing table",
      (tx: DatabaseSync) => tx.exec("INSERT INTO missing VALUES (1)"),
      "no such table",
    ],
  ])(
    "%s: settle rejects with the error of SQLite, and the rest of the group is recorded",
    async (_, write, message) => {
      const { db, store, claims, nights, done } = await claimed(2);
      db.exec("CREATE UNIQUE INDEX one ON nights (event); INSERT INTO nights VALUES ('twice')");
      let thrown: unknown;
      const noted = (tx: DatabaseSync) => {
        try {
          write(tx);
        } catch (error) {
          thrown = error;
          throw error;
        }
      };
      const answers = await Promise.allSettled([
        store.settle(claims[0]!, done(noted)),
        store.settle(claims[1]!, done(night("other"))),
      ]);
      // The queue takes an error for the callback's if it is the very error that the write threw.
      expect(answers[0]).toEqual({ status: "rejected", reason: thrown });
      expect(thrown).toMatchObject({ message: expect.stringContaining(message) });
      expect(nights()).toEqual(["twice", "other"]);
      await store.close();
    },
  );

  test("breaks a deferred constraint at the commit: settle rejects with the error of SQLite", async () => {
    const { db, store, claims, nights, done } = await claimed(2);
    db.exec(
      "PRAGMA foreign_keys = ON; CREATE TABLE guests (name TEXT PRIMARY KEY); CREATE TABLE stays (guest TEXT REFERENCES guests DEFERRABLE INITIALLY DEFERRED)",
    );
    const answers = await Promise.allSettled([
      store.settle(
        claims[0]!,
        done((tx) => tx.exec("INSERT INTO stays VALUES ('nobody')")),
      ),
      store.settle(claims[1]!, done(night("other"))),
    ]);
    expect(answers[0]).toMatchObject({
      reason: { message: "FOREIGN KEY constraint failed", code: "ERR_SQLITE_ERROR" },
    });
    expect(answers[1]).toEqual({ status: "fulfilled", value: true });
    expect(nights()).toEqual(["other"]);
    expect(await store.counts()).toMatchObject({ done: 1, processing: 1 });
    await store.close();
  });
});

test("if a write fills the disk, only its event fails", async () => {
  const { db, store, claims, nights, done } = await claimed(2);
  const { page_count } = db.prepare("PRAGMA page_count").get() as { page_count: number };
  db.exec(`PRAGMA max_page_count = ${page_count + 2}`);
  const answers = await Promise.allSettled([
    store.settle(claims[0]!, done(night("first"))),
    store.settle(claims[1]!, done(night("x".repeat(100_000)))),
  ]);
  expect(answers[0]).toEqual({ status: "fulfilled", value: true });
  expect(answers[1]).toMatchObject({ status: "rejected" });
  expect(nights()).toEqual(["first"]);
  expect(await store.counts()).toMatchObject({ done: 1, processing: 1 });
  await store.close();
});

describe("a write that breaks the rules", () => {
  test.each([
    ["is async", async () => {}],
    ["returns a promise that rejects", () => Promise.reject(new Error("later"))],
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tried
    ["returns a thenable", () => ({ then: () => {} })],
  ])("%s: settle rejects with InvalidWriteError, and nothing is committed", async (_, write) => {
    const { store, claims, nights, done } = await claimed(2);
    const answers = await Promise.allSettled([
      store.settle(claims[0]!, done(night("undone"), write as () => void)),
      store.settle(claims[1]!, done(night("other"))),
    ]);
    expect(answers[0]).toMatchObject({
      reason: { name: "InvalidWriteError", message: expect.stringContaining("must be synchronous") },
    });
    expect(answers[0]).toMatchObject({ reason: expect.any(InvalidWriteError) });
    expect(nights()).toEqual(["other"]);
    expect(await store.counts()).toMatchObject({ done: 1, processing: 1 });
    await store.close();
  });

  test.each(["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN"])(
    "runs %s: settle rejects with InvalidWriteError, and the other calls are recorded",
    async (sql) => {
      const { db, store, claims, nights, done } = await claimed(3);
      const ran = vi.fn();
      const added = eventOf();
      const answers = await Promise.allSettled([
        store.add(added),
        store.settle(
          claims[0]!,
          done(ran, (tx) => tx.exec(sql)),
        ),
        store.settle(claims[1]!, done(night("other"))),
      ]);
      expect(answers[1]).toMatchObject({
        reason: { name: "InvalidWriteError", message: expect.stringContaining("must not run COMMIT") },
      });
      expect(ran).toHaveBeenCalledTimes(1);
      expect(answers[0]?.status).toBe("fulfilled");
      expect(answers[2]).toEqual({ status: "fulfilled", value: true });
      expect(nights()).toEqual(["other"]);
      expect(await store.counts()).toEqual({
        scheduled: 0,
        pending: 1,
        processing: 2,
        retrying: 0,
        done: 1,
        parked: 0,
      });
      expect(() => db.exec("ROLLBACK")).toThrow("no transaction is active");
      await store.close();
    },
  );
});

test("a write may call the store, and the call runs after the write", async () => {
  const { store, claims, done } = await claimed(1);
  let added: Promise<string> | undefined;
  const write = () => {
    added = store.add(eventOf());
  };
  expect(await store.settle(claims[0]!, done(write))).toBe(true);
  expect(await added).toBe("added");
  await store.close();
});
