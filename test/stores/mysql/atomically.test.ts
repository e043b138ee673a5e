import type { PoolConnection } from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("a deadlock inside the writes of event.atomically", () => {
  const databases = createDatabases();

  async function claimed(count: number) {
    const url = await databases.create();
    const store = mysqlStore({ url });
    onTestFinished(() => store.close());
    for (let index = 1; index <= count; index++) {
      await store.add({
        eventId: `0d4fd8a6-35a5-4f0c-9b0e-00000000000${index}`,
        ref: `booking:HX3K${index}`,
        source: "webhook",
        topic: null,
        timestamp: "2026-05-01T12:00:00.000Z",
        notification: "{}",
      });
    }
    const claims = await store.claim({ limit: count, leaseDuration: 60_000 });
    const settle = (index: number, ...writes: ((tx: PoolConnection) => Promise<void>)[]) =>
      store.settle(claims[index]!, {
        state: "done",
        type: "booking.Confirmed",
        entry: { duration: 1 },
        writes,
      });
    return { store, url, settle };
  }

  test("makes the writes run again, and the event is done once", async () => {
    const { store, url, settle } = await claimed(2);
    const table = `${new URL(url).pathname.slice(1)}.nights`;
    await databases.pool.query(`CREATE TABLE ${table} (name VARCHAR(9) PRIMARY KEY, writes INT NOT NULL)`);
    await databases.pool.query(`INSERT INTO ${table} VALUES ('x', 0), ('y', 0)`);
    const touch = (name: string) => async (tx: PoolConnection) =>
      void (await tx.query(`UPDATE ${table} SET writes = writes + 1 WHERE name = ?`, [name]));
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
    const [rows] = await databases.pool.query(`SELECT writes FROM ${table}`);
    expect(rows).toEqual([{ writes: 2 }, { writes: 2 }]);
    expect(await store.counts()).toMatchObject({ done: 2, processing: 0 });
  });

  test("after ten attempts, is a failure of the store, not of the write", async () => {
    const { store, settle } = await claimed(1);
    let runs = 0;
    const deadlock = Object.assign(new Error("Deadlock found"), { errno: 1213, sqlState: "40001" });
    const rejection = await settle(0, async () => {
      runs += 1;
      throw deadlock;
    }).catch((error: unknown) => error);
    // If a store rejects with the error of a write, the write has failed. Any other error means that the store failed.
    expect(rejection).not.toBe(deadlock);
    expect(rejection).toMatchObject({ name: "StayhookError", cause: deadlock });
    expect(runs).toBe(10);
    expect(await store.counts()).toMatchObject({ processing: 1 });
  });
});
