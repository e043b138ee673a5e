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
