import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Write } from "../../../src/stores/event-store.ts";
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";
import { eventually } from "../../support/eventually.ts";
import { lazyQuery } from "../../support/lazy-query.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { describeEvery, type Kind, type Opening, opened } from "./stores.ts";

const TABLES = {
  nights: "CREATE TABLE nights (name VARCHAR(40) PRIMARY KEY, writes INT NOT NULL)",
  guests: "CREATE TABLE guests (name VARCHAR(40) PRIMARY KEY)",
  stays: `CREATE TABLE stays (name VARCHAR(40) PRIMARY KEY,
    guest VARCHAR(40) NOT NULL REFERENCES guests (name) DEFERRABLE INITIALLY DEFERRED)`,
};

/** Makes a store beside tables of the user, and claims `count` events of different records. */
async function claimed(
  kind: Kind,
  count: number,
  options: Opening & { readonly leaseDuration?: number } = {},
) {
  const { leaseDuration = 60_000, ...opening } = options;
  const place = await kind.create();
  const tables = kind.name === "MySQL" ? [TABLES.nights] : Object.values(TABLES);
  for (const table of tables) await place.sql(table);
  const store = opened(place, opening);
  for (let index = 0; index < count; index++) await store.add(eventOf(`booking:${index}`));
  const claims = await store.claim({ limit: 100, leaseDuration });
  expect(claims).toHaveLength(count);
  const run = (sql: string) => (tx: unknown) => kind.write!(tx, sql);
  return {
    place,
    store,
    claims,
    run,
    night: (name: string) => run(`INSERT INTO nights VALUES ('${name}', 1)`),
    nights: async () => (await place.sql("SELECT name FROM nights ORDER BY name")).map(({ name }) => name),
    settle: (index: number, ...writes: Write<unknown>[]) => store.settle(claims[index]!, { ...DONE, writes }),
  };
}

/** Makes a write that notes its error, as `event.atomically` does: a rejection with it is the callback's failure. */
function noted(write: Write<unknown>) {
  const errors: unknown[] = [];
  const failed = (error: unknown): never => {
    errors.push(error);
    throw error;
  };
  return {
    errors,
    write: (tx: unknown): unknown => {
      try {
        const writing = write(tx);
        return writing instanceof Promise ? writing.catch(failed) : writing;
      } catch (error) {
        failed(error);
      }
    },
  };
}

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.fail("expected a rejection"),
    (error: unknown) => error,
  );

describeEvery(
  ({ isTransactional }) => isTransactional,
  (kind) => {
    test("the writes are committed together with the end of the event", async () => {
      const { store, settle, night, nights } = await claimed(kind, 1);
      expect(await settle(0, night("a"), night("b"))).toBe(true);
      expect(await nights()).toEqual(["a", "b"]);
      expect(await store.counts()).toMatchObject({ done: 1 });
    });

    test("a write that throws undoes the writes of its event, and of no other", async () => {
      const { store, settle, night, nights } = await claimed(kind, 3);
      const own = new Error("the callback's own");
      const ran = vi.fn();
      const fail = () => {
        throw own;
      };
      const answers = await Promise.allSettled([
        settle(0, night("a")),
        settle(1, night("b"), fail, ran),
        settle(2, night("c")),
        store.add(eventOf("booking:other")),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([
        "fulfilled",
        "rejected",
        "fulfilled",
        "fulfilled",
      ]);
      expect((answers[1] as PromiseRejectedResult).reason).toBe(own);
      expect(ran).not.toHaveBeenCalled();
      expect(await nights()).toEqual(["a", "c"]);
      expect(await store.counts()).toMatchObject({ done: 2, processing: 1, pending: 1 });
      expect(await settle(1, night("b"))).toBe(true);
      expect(await nights()).toEqual(["a", "b", "c"]);
    });

    test.each([
      ["a unique key", "INSERT INTO nights VALUES ('known', 1)"],
      ["NOT NULL", "INSERT INTO nights VALUES ('b', NULL)"],
      ["a table that is not there", "INSERT INTO missing VALUES (1)"],
      ["its syntax", "INSRT INTO nights"],
    ])("a write that the database refuses because of %s is the callback's failure", async (_, sql) => {
      const { store, place, settle, run, night, nights } = await claimed(kind, 2);
      await place.sql("INSERT INTO nights VALUES ('known', 1)");
      const { write, errors } = noted(run(sql));
      const [refused, other] = await Promise.all([
        errorOf(settle(0, night("undone"), write)),
        settle(1, night("other")),
      ]);
      expect(errors).toHaveLength(1);
      expect(refused).toBe(errors[0]);
      expect(other).toBe(true);
      expect(await nights()).toEqual(["known", "other"]);
      expect(await store.counts()).toMatchObject({ done: 1, processing: 1 });
    });

    test("a lazy query, which is no promise, runs in the transaction, or is refused and does not run", async () => {
      const { store, settle, run, nights } = await claimed(kind, 1);
      let began = false;
      const write = (tx: unknown) =>
        lazyQuery(() => {
          began = true;
          return run("INSERT INTO nights VALUES ('lazy', 1)")(tx);
        });
      if (kind.name === "SQLite") {
        expect(await errorOf(settle(0, write))).toMatchObject({
          name: "InvalidWriteError",
          message: expect.stringContaining("returned a promise or a lazy query"),
        });
        await sleep(0);
        expect([began, await nights()]).toEqual([false, []]);
      } else {
        expect(await settle(0, write)).toBe(true);
        expect([began, await nights()]).toEqual([true, ["lazy"]]);
        expect(await store.counts()).toMatchObject({ done: 1 });
      }
    });

    test("the writes do not run if the lease was lost, or has ended the event", async () => {
      const { store, claims, settle, night, nights } = await claimed(kind, 2);
      const ran = vi.fn();
      await store.settle(claims[0]!, { state: "released" });
      await store.claim({ ...CLAIM, eventId: claims[0]!.eventId });
      expect(await settle(0, ran)).toBe(false);
      expect(await settle(1, night("once"))).toBe(true);
      expect(await settle(1, ran, night("twice"))).toBe(true);
      expect(ran).not.toHaveBeenCalled();
      expect(await nights()).toEqual(["once"]);
    });

    test("events that the outcome records are written with the writes, or not at all", async () => {
      const { store, claims, run, night, nights } = await claimed(kind, 1);
      const outcome = { ...DONE, events: [{ event: eventOf("booking:next") }] };
      const bad = run("INSERT INTO missing VALUES (1)");
      await errorOf(store.settle(claims[0]!, { ...outcome, writes: [bad] }));
      expect(await store.counts()).toMatchObject({ processing: 1, pending: 0 });
      expect(await store.settle(claims[0]!, { ...outcome, writes: [night("a")] })).toBe(true);
      expect(await store.counts()).toMatchObject({ done: 1, pending: 1 });
      expect(await nights()).toEqual(["a"]);
    });

    test.each(["COMMIT", "ROLLBACK"])("a write that runs %s rejects with InvalidWriteError", async (sql) => {
      const { store, settle, run, night, nights } = await claimed(kind, 2);
      const answers = await Promise.allSettled([settle(0, run(sql)), settle(1, night("other"))]);
      expect(answers[0]).toMatchObject({ reason: { name: "InvalidWriteError" } });
      expect(answers[1]).toEqual({ status: "fulfilled", value: true });
      expect(await store.counts()).toMatchObject({ done: 1, processing: 1 });
      expect(await nights()).toEqual(["other"]);
    });
  },
);

// MySQL and MariaDB have no deferred constraints.
describeEvery(
  ({ isTransactional, name }) => isTransactional && name !== "MySQL",
  (kind) => {
    describe("a constraint that is checked at COMMIT", () => {
      test("is the callback's failure, and other events of the group are done", async () => {
        const { store, place, settle, run, night, nights } = await claimed(kind, 3);
        const bad = run("INSERT INTO stays VALUES ('a', 'nobody')");
        const answers = await Promise.allSettled([settle(0, bad), settle(1, night("b")), settle(2, bad)]);
        for (const index of [0, 2]) {
          const { reason } = answers[index] as PromiseRejectedResult;
          // An error of the store has this name. The queue would try again for as long as the lease is held.
          expect(reason).not.toMatchObject({ name: "StayhookError" });
          expect(String(reason)).toMatch(/foreign key/i);
        }
        expect(answers[1]).toEqual({ status: "fulfilled", value: true });
        expect(await nights()).toEqual(["b"]);
        expect(await store.counts()).toMatchObject({ done: 1, processing: 2 });
        await place.sql("INSERT INTO guests VALUES ('nobody')");
        expect(await settle(0, bad)).toBe(true);
      });
    });
  },
);

/** SQLite has one writer and synchronous writes, so that nothing happens between two of them. */
describe("asynchronous writes", () => {
  describeEvery(
    ({ isTransactional, url }) => isTransactional && url !== undefined,
    (kind) => {
      test("run in turn, and other connections see none of them before the event is done", async () => {
        const { store, settle, night, nights } = await claimed(kind, 1);
        const order: string[] = [];
        const slow = async () => {
          await sleep(50);
          expect(await nights()).toEqual([]);
          expect(await store.counts()).toMatchObject({ processing: 1, done: 0 });
          order.push("slow");
        };
        expect(await settle(0, night("a"), slow, async () => void order.push("quick"))).toBe(true);
        expect(order).toEqual(["slow", "quick"]);
        expect(await nights()).toEqual(["a"]);
      });

      test("hold up no add, claim or settle of other events, nor an add to their own record", async () => {
        const { store, settle, night } = await claimed(kind, 8);
        const held = Promise.withResolvers<void>();
        const settled = Array.from({ length: 7 }, (_, index) =>
          settle(index, night(String(index)), () => held.promise),
        );
        // Let the writes begin.
        await sleep(300);
        const answers = await Promise.all([
          store.add(eventOf("booking:0")),
          store.add(eventOf("booking:other")),
        ]);
        expect(answers).toEqual(["added", "added"]);
        expect(await store.claim(CLAIM)).toHaveLength(1);
        expect(await settle(7)).toBe(true);
        held.resolve();
        expect(await Promise.all(settled)).toEqual(Array(7).fill(true));
        expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:0" }]);
      });

      test("are rolled back if the lease is lost while they run", async () => {
        const { store, claims, settle, night, nights } = await claimed(kind, 1, { leaseDuration: 50 });
        let taken: ClaimedEvent | undefined;
        const takeOver = async () => {
          [taken] = await eventually(async () => {
            const found = await store.claim(CLAIM);
            expect(found).toHaveLength(1);
            return found;
          });
        };
        expect(await settle(0, night("lost"), takeOver)).toBe(false);
        expect(await nights()).toEqual([]);
        expect(taken).toMatchObject({ eventId: claims[0]!.eventId, attempts: 2 });
        expect(await store.settle(taken!, { ...DONE, writes: [night("held")] })).toBe(true);
        expect(await nights()).toEqual(["held"]);
      });

      test("run again after a deadlock, and are committed once", async () => {
        const { store, place, settle, run } = await claimed(kind, 2);
        for (const name of ["x", "y"]) await place.sql(`INSERT INTO nights VALUES ('${name}', 0)`);
        const touch = (name: string) => run(`UPDATE nights SET writes = writes + 1 WHERE name = '${name}'`);
        let runs = 0;
        const bothMet = Promise.withResolvers<void>();
        const meet = async () => {
          runs += 1;
          if (runs === 2) bothMet.resolve();
          await bothMet.promise;
        };
        const settled = await Promise.all([
          settle(0, touch("x"), meet, touch("y")),
          settle(1, touch("y"), meet, touch("x")),
        ]);
        expect(settled).toEqual([true, true]);
        expect(runs).toBeGreaterThan(2);
        const rows = await place.sql("SELECT writes FROM nights");
        expect(rows.map(({ writes }) => Number(writes))).toEqual([2, 2]);
        expect(await store.counts()).toMatchObject({ done: 2, processing: 0 });
      });

      test("are awaited by close", async () => {
        const place = await kind.create();
        await place.sql(TABLES.nights);
        const store = place.open();
        await store.add(eventOf());
        const [claim] = await store.claim(CLAIM);
        const order: string[] = [];
        let closed: Promise<unknown> | undefined;
        const write = async (tx: unknown) => {
          closed = store.close().then(() => order.push("closed"));
          await sleep(200);
          await kind.write!(tx, "INSERT INTO nights VALUES ('a', 1)");
          order.push("written");
        };
        onTestFinished(() => store.close());
        expect(await store.settle(claim!, { ...DONE, writes: [write] })).toBe(true);
        await closed;
        expect(order).toEqual(["written", "closed"]);
        expect(await place.sql("SELECT name FROM nights")).toHaveLength(1);
      });
    },
  );
});
