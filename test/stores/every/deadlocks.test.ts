// A callback's write and the store's own statements lock the same rows, in different orders.

import mysql from "mysql2/promise";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { done, eventOf, HOUR, idsOf, queueOf } from "../../queue/support.ts";
import { eventually } from "../../support/eventually.ts";
import { describeEvery, type Kind, opened, type Place } from "./stores.ts";

/** Another session beside the store, which no server chooses as the victim of a deadlock. */
interface Other {
  begin(): Promise<void>;
  run(sql: string): Promise<unknown>;
}

const ROWS = Array.from({ length: 500 }, (_, n) => `(${n})`).join(", ");

/** Opens the other session. It ends with the test. */
async function otherSession({ name }: Kind, place: Place): Promise<Other> {
  if (name === "PostgreSQL") {
    const client = new pg.Client(place.place.url);
    client.on("error", () => {});
    await client.connect();
    onTestFinished(() => client.end());
    // A session looks for a deadlock after this time, and ends its own transaction if it finds one.
    await client.query("SET deadlock_timeout = '10min'");
    return { begin: async () => void (await client.query("BEGIN")), run: (sql) => client.query(sql) };
  }
  const connection = await mysql.createConnection(place.place.url);
  onTestFinished(() => connection.destroy());
  await place.sql("CREATE TABLE weights (n INT PRIMARY KEY)");
  return {
    // InnoDB rolls back the transaction that has changed the fewest rows.
    async begin() {
      await connection.query("START TRANSACTION");
      await connection.query(`INSERT INTO weights VALUES ${ROWS}`);
    },
    run: (sql) => connection.query(sql),
  };
}

/** Locks the store's row of a record. */
const lockOf = ({ name }: Kind, ref: string) =>
  name === "PostgreSQL"
    ? `SELECT FROM records WHERE ref = '${ref}' FOR UPDATE`
    : `SELECT ref FROM stayhook_records WHERE ref = '${ref}' FOR UPDATE`;

describeEvery(
  ({ isTransactional, url }) => isTransactional && url !== undefined,
  (kind) => {
    const [own, stranger] = ["booking:bad", "booking:stranger"];

    /**
     * Makes a store with the event `bad`, whose write locks the record of another booking. During `times` runs of it, the
     * other session locks this event's record, and then waits for the other booking's.
     */
    async function deadlocking(times: number, victim: "the store's statement" | "the write") {
      const place = await kind.create();
      const store = opened(place) as EventStore;
      await store.add(eventOf("stranger", stranger), { dueAt: new Date(Date.now() + HOUR) });
      const other = await otherSession(kind, place);
      let runs = 0;
      let before: Promise<unknown> = Promise.resolve();
      const [first, second] = victim === "the write" ? [stranger, own] : [stranger];
      const write = async (tx: unknown) => {
        runs += 1;
        await before;
        if (kind.name === "PostgreSQL") await kind.write!(tx, "SET LOCAL deadlock_timeout = 50");
        await kind.write!(tx, lockOf(kind, first!));
        if (runs > times) return;
        await other.begin();
        await other.run(lockOf(kind, own));
        before = other.run(lockOf(kind, first!)).finally(() => other.run("ROLLBACK"));
        if (second !== undefined) await kind.write!(tx, lockOf(kind, second));
      };
      const { queue, add } = queueOf({
        store,
        concurrency: 4,
        maxAttempts: 3,
        backoff: () => 100,
        work: ({ eventId }) => (eventId === "bad" ? { ...done, writes: [write] } : done) as never,
      });
      onTestFinished(() => queue.close(0));
      await add("bad");
      queue.start();
      await eventually(() => expect(runs).toBeGreaterThan(0));
      return { store, queue, add, runs: () => runs };
    }
    test("two callbacks that lock each other's record cost no attempt", async () => {
      const store = opened(await kind.create()) as EventStore;
      const refs = { a: "booking:b", b: "booking:a" } as Record<string, string>;
      const both = Promise.withResolvers<void>();
      let [runs, locked] = [0, 0];
      const write = (eventId: string) => async (tx: unknown) => {
        runs += 1;
        await kind.write!(tx, lockOf(kind, refs[eventId]!));
        locked += 1;
        if (locked === 2) both.resolve();
        await both.promise;
      };
      const work = ({ eventId }: { eventId: string }) => ({ ...done, writes: [write(eventId)] }) as never;
      const { queue, add } = queueOf({ store, work });
      onTestFinished(() => queue.close(0));
      await add("a", "b");
      queue.start();
      await eventually(async () => expect(await store.counts()).toMatchObject({ done: 2 }));
      expect(await store.list({ limit: 2 })).toMatchObject([{ attempts: 1 }, { attempts: 1 }]);
      // Where both sessions look for a deadlock at once, the server ends both.
      expect([3, 4]).toContain(runs);
    });

    const victims = ["the store's statement", "the write"] as const;

    test.each(victims)("a deadlock that ends %s costs no attempt", async (victim) => {
      const { store, runs } = await deadlocking(1, victim);
      await eventually(async () => expect(await store.get("bad")).toMatchObject({ state: "done" }));
      expect(await store.get("bad")).toMatchObject({ attempts: 1, history: [{ outcome: "done" }] });
      expect(runs()).toBe(2);
    });

    test.each(victims)(
      "deadlocks that end %s each time cost the event its attempts, and others nothing",
      async (victim) => {
        const { store, queue, add } = await deadlocking(Number.POSITIVE_INFINITY, victim);
        await add(...idsOf(20));
        queue.wake(eventOf("any"));
        await eventually(async () => expect(await store.counts()).toMatchObject({ done: 20 }));
        await eventually(async () => expect(await store.get("bad")).toMatchObject({ state: "parked" }));
        expect(await store.get("bad")).toMatchObject({ reason: "callback", attempts: 3 });
      },
    );
  },
);
