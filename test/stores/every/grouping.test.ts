import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createProxy } from "./proxy.ts";
import { describeEvery, type Kind, opened } from "./stores.ts";

const CALLS = 50;
const refs = Array.from({ length: CALLS }, (_, index) => `booking:${index}`);

/** Makes a store, and counts the round trips of its calls. For SQLite, it counts the transactions. */
async function counted(kind: Kind): Promise<{ store: EventStore<unknown>; count(): number }> {
  if (kind.url === undefined) {
    const { sqliteStore } = await import("../../../src/stores/sqlite/index.ts");
    const db = new DatabaseSync(":memory:");
    const commits = vi.spyOn(db, "exec");
    const store = sqliteStore(db) as EventStore<unknown>;
    onTestFinished(() => store.close());
    return { store, count: () => commits.mock.calls.filter(([sql]) => sql === "COMMIT").length };
  }
  const proxy = await createProxy(kind.url);
  const place = await kind.create();
  return { store: opened(place, { url: proxy.url }), count: () => proxy.roundTrips };
}

describeEvery(
  ({ name }) => name !== "memory",
  (kind) => {
    test(`${CALLS} calls at once take a handful of round trips`, async () => {
      const { store, count } = await counted(kind);
      const most = async (what: string, act: () => Promise<unknown>) => {
        const before = count();
        await act();
        return { what, isFew: count() - before <= 10, count: count() - before };
      };
      const addAll = () => Promise.all(refs.map((ref) => store.add(eventOf(ref))));
      const settleAll = async () => {
        const claims = await store.claim(CLAIM);
        return most("settles", () => Promise.all(claims.map((claim) => store.settle(claim, DONE))));
      };
      // The first calls open connections, migrate and prepare statements.
      await addAll();
      await store.renew(await store.claim({ ...CLAIM, limit: 1 }), 60_000);
      await settleAll();
      const found = [await most("adds", addAll)];
      const claims = await store.claim({ ...CLAIM, limit: CALLS - 1 });
      found.push(
        await most("renewals", () => store.renew(claims, 60_000)),
        await most("settles", () => Promise.all(claims.map((claim) => store.settle(claim, DONE)))),
      );
      expect(found.filter(({ isFew }) => !isFew)).toEqual([]);
    });
  },
);

describeEvery(
  ({ name }) => name !== "memory",
  (kind) => {
    test("3,000 events that wait for one record do not slow the others", async () => {
      const store = opened(await kind.create());
      /** Returns the time until events of other records are done, ms. */
      const timed = async () => {
        const start = performance.now();
        await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
        for (let left = CALLS; left > 0; ) {
          const claims = await store.claim(CLAIM);
          await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
          left -= claims.filter(({ ref }) => ref !== "booking:hot").length;
        }
        return performance.now() - start;
      };
      await timed();
      const alone = await timed();
      for (let part = 0; part < 10; part++)
        await Promise.all(Array.from({ length: 300 }, () => store.add(eventOf("booking:hot"))));
      // Other work on the machine may slow one round down.
      await eventually(async () => expect(await timed()).toBeLessThan(5 * alone + 1000));
      expect((await store.counts()).pending).toBeGreaterThan(2900);
    });
  },
);
