import { DatabaseSync } from "node:sqlite";
import { describe, expect, test, vi } from "vitest";
import { InvalidWriteError } from "../../../src/errors.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
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
test("a store on a path passes its own connection to the writes", async () => {
  const store = sqliteStore(files.path());
  await store.add(eventOf());
  const [claim] = await store.claim(CLAIM);
  const write = vi.fn();
  await store.settle(claim!, { ...DONE, writes: [write] });
  expect(write.mock.calls[0]?.[0]).toBeInstanceOf(DatabaseSync);
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
      expect(await store.counts()).toMatchObject({ pending: 1, processing: 2, done: 1 });
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
