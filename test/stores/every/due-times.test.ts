// A timer is due at its time, however long the call that records it takes.

import { expect, onTestFinished, test, vi } from "vitest";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { describeEvery, type Kind, opened } from "./stores.ts";

const HOUR = 60 * 60_000;
/** A statement of the user that takes two seconds. */
const SLOW: Partial<Record<Kind["name"], string>> = {
  PostgreSQL: "SELECT pg_sleep(2)",
  MySQL: "SELECT SLEEP(2)",
  SQLite: `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000000) SELECT count(*) FROM n`,
};
const timer = (ref: string, at: Date) => ({
  ...eventOf(ref),
  source: "timer" as const,
  timestamp: at.toISOString(),
});

describeEvery(
  () => true,
  (kind) => {
    test("a timer of an event whose write is slow, also if it moves itself", async () => {
      const store = opened(await kind.create());
      const at = new Date(Date.now() + HOUR);
      const own = timer("booking:A", new Date());
      await store.add(own);
      const [claim] = await store.claim(CLAIM);
      const moved = { ...own, timestamp: at.toISOString() };
      const other = timer("booking:A", at);
      const events = [moved, other].map((event) => ({ event, dueAt: at, replace: "moved" }) as const);
      const slow = SLOW[kind.name];
      const writes = slow === undefined ? undefined : [(tx: unknown) => kind.write!(tx, slow)];
      expect(await store.settle(claim!, { ...DONE, writes, events })).toBe(true);
      for (const { eventId } of events.map(({ event }) => event))
        expect(await store.get(eventId)).toMatchObject({ state: "scheduled", dueAt: at });
      expect(await store.nextDue()).toBeLessThanOrEqual(HOUR);
    });

    test("timers that many calls set at once, and one that was late and is set again", async () => {
      const store = opened(await kind.create());
      const at = new Date(Date.now() + HOUR);
      const timers = Array.from({ length: 300 }, (_, index) => timer(`booking:${index}`, at));
      await Promise.all(timers.map((event) => store.add(event, { dueAt: at, replace: "moved" })));
      const found = await store.list({ limit: 1000 });
      expect(found).toHaveLength(300);
      expect(new Set(found.map(({ dueAt }) => dueAt?.getTime()))).toEqual(new Set([at.getTime()]));
      const [first] = timers;
      const later = new Date(Number(at) + 1);
      const moved = { ...first!, timestamp: later.toISOString() };
      expect(await store.add(moved, { dueAt: later, replace: "moved" })).toBe("added");
      expect(await store.get(first!.eventId)).toMatchObject({ dueAt: later });
    });

    test("a time by the clock of a process that is five minutes ahead of the store's server", async () => {
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + HOUR / 12 });
      onTestFinished(() => void vi.useRealTimers());
      const store = opened(await kind.create());
      const at = new Date(Date.now() + HOUR);
      await store.add(timer("booking:A", at), { dueAt: at });
      const dueIn = await store.nextDue();
      expect(dueIn).toBeGreaterThan(HOUR - 20_000);
      expect(dueIn).toBeLessThan(HOUR + 1000);
    });

    test("a time that has passed is now", async () => {
      const store = opened(await kind.create());
      await store.add(timer("booking:A", new Date(0)), { dueAt: new Date(0) });
      expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:A" }]);
    });
  },
);
