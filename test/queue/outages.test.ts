// The rows of pauses and fairness, in simulated time. A read takes 20 ms unless a row says otherwise, and there are ten slots.

import { describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { appOf, quantile } from "./lanes.support.ts";
import {
  advance,
  alteredStore,
  callbackFailed,
  DAY,
  eventOf,
  HOUR,
  idsOf,
  MINUTE,
  outOfReach,
  queueOf,
  SECOND,
  useFakeTime,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));
vi.setConfig({ testTimeout: 120_000 });

type App = ReturnType<typeof appOf>;
const of = (app: App, account: string) => app.waits.filter((wait) => wait.account === account);
const named = (app: App, name: string) => app.waits.filter(({ id }) => id.includes(name));
const readsIn = (app: App, from: number, to: number) =>
  app.reads.filter(({ at }) => at >= from && at < to).length / ((to - from) / SECOND);

describe("slow callbacks of one account", () => {
  test("500 events, slow for two minutes: all are done within 90 s of the last slow one", async () => {
    let isSlow = true;
    const app = appOf(() => 200, { latency: (account) => (account === "a" && isSlow ? MINUTE : 5) });
    app.queue.start();
    for (let n = 0; n < 500; n += 1) await app.send("a", `A${n}`);
    for (let n = 0; n < 12; n += 1) {
      await app.until(n * 20 * SECOND);
      isSlow = app.now() < 2 * MINUTE;
      await app.send("b", `B${n}`);
    }
    const last = Math.max(
      ...of(app, "a")
        .filter(({ wait, at }) => wait + at < 4 * MINUTE)
        .map(({ at, wait }) => at + wait),
    );
    await app.until(last + 90 * SECOND);
    expect(of(app, "a")).toHaveLength(500);
    expect(quantile(of(app, "b"), 1)).toBeLessThan(SECOND);
  });

  test("3,000 events of 10 s beside another account: p95 of the other one under 0.3 s", async () => {
    const app = appOf(() => 200, { latency: (account) => (account === "slow" ? 10 * SECOND : 20) });
    app.queue.start();
    for (let n = 0; n < 3000; n += 1) await app.send("slow", `S${n}`);
    for (let n = 0; n < 300; n += 1) {
      await app.until(n * 200);
      await app.send("b", `B${n}`);
    }
    await advance(SECOND);
    expect(of(app, "b")).toHaveLength(300);
    expect(quantile(of(app, "b"), 0.95)).toBeLessThan(300);
  });
});

describe("bookings that fail for ever, and a good one a minute", () => {
  test.each([
    { count: 2, answer: 500, most: SECOND },
    { count: 300, answer: 500, most: SECOND },
    { count: 2, answer: "hangs", most: 10 * SECOND },
    { count: 300, answer: "hangs", most: 10 * SECOND },
  ] as const)(
    "$count of them, with $answer: p95 of the good ones under $most ms",
    async ({ count, answer, most }) => {
      for (const hasAccounts of [true, false]) {
        const prefix = hasAccounts ? "a/" : "";
        const app = appOf((_, id) => (id.includes("BAD") ? answer : 200), { hasAccounts });
        app.queue.start();
        for (let n = 0; n < count; n += 1) await app.send("a", "", { ref: `${prefix}booking:BAD${n}` });
        for (let n = 0; n < 60; n += 1) {
          await app.until(5 * SECOND + n * MINUTE);
          await app.send("a", "", { ref: `${prefix}booking:GOOD${n}` });
        }
        await advance(MINUTE);
        expect(named(app, "GOOD")).toHaveLength(60);
        expect(quantile(named(app, "GOOD"), 0.95)).toBeLessThan(most);
        await app.queue.close(0);
      }
    },
  );

  test("half of the records down for half an hour: p95 of the others under 1 s", async () => {
    const app = appOf((_, id, at) => (id.includes("BAD") && at < 30 * MINUTE ? 503 : 200));
    app.queue.start();
    for (let n = 0; n < 1500; n += 1) {
      await app.until(n * 200);
      await app.send("a", n % 2 ? `BAD${n}` : `GOOD${n}`);
    }
    await advance(MINUTE);
    expect(named(app, "GOOD")).toHaveLength(750);
    expect(quantile(named(app, "GOOD"), 0.95)).toBeLessThan(SECOND);
  });
});

describe("an outage", () => {
  test("of half an hour, one event a second: one read a second, nothing counted, all done 60 s after it", async () => {
    const [from, to] = [10 * MINUTE, 40 * MINUTE];
    const app = appOf((_, __, at) => (at >= from && at < to ? 503 : 200));
    app.queue.start();
    for (let n = 0; n < (41 * MINUTE) / SECOND; n += 1) {
      await app.until(n * SECOND);
      await app.send("a", `B${n}`);
    }
    expect(readsIn(app, from + 10 * SECOND, to)).toBeLessThanOrEqual(1.05);
    await advance(SECOND);
    expect(app.waits.filter(({ at }) => at < to)).toHaveLength(to / SECOND);
    for (const { attempts } of await app.store.list({ state: "done", limit: 5000 })) expect(attempts).toBe(1);
  });

  test("after callbacks that failed: five reads of their events begin the pause, as of any others", async () => {
    let isOut = false;
    const app = queueOf({
      backoff: () => 10 * SECOND,
      work: ({ eventId }) => (isOut && eventId !== "ok" ? outOfReach() : callbackFailed),
    });
    await app.add(...idsOf(8));
    app.queue.start();
    await advance(5 * SECOND);
    isOut = true;
    await advance(8 * SECOND);
    expect(app.queue.pause).toMatchObject({ scope: "bookings" });
    expect(app.ran.length).toBeLessThan(8 + 12);
  });

  test("of everything holds up no event that reads nothing, however many others are newer", async () => {
    // A process that is not told of arrivals.
    const store = alteredStore(memoryStore(), { subscribe: () => undefined });
    const app = appOf(() => 503, { store });
    app.queue.start();
    for (const account of ["a", "b"]) for (const id of idsOf(5)) await app.send(account, id);
    await app.until(17 * SECOND);
    expect(app.queue.pause).toMatchObject({ scope: "everything" });
    app.sent.set("a/message", app.now());
    await app.store.add(eventOf("a/message", null));
    for (const id of idsOf(400)) await app.store.add(eventOf(`a/newer ${id}`, `a/booking:${id}`));
    await advance(35 * SECOND);
    expect((await app.store.get("a/message"))?.state).toBe("done");
  });

  test("of hours, with one event alone: it is done within 60 s of the return", async () => {
    const back = 5 * HOUR;
    const app = appOf((_, __, at) => (at < back ? 503 : 200));
    app.queue.start();
    await app.send("a", "B");
    await app.until(back + MINUTE);
    expect(app.waits).toHaveLength(1);
  });

  test("of everything ends although the events that are due first have no account", async () => {
    const app = appOf((_, __, at) => (at < 5 * MINUTE ? 503 : 200));
    for (let n = 0; n < 200; n += 1)
      await app.store.add(eventOf(`stray ${n}`, n === 0 ? null : `booking:OLD${n}`));
    app.queue.start();
    for (let n = 0; n < 10; n += 1) await app.send(`a${n}`, `B${n}`);
    await app.until(6 * MINUTE);
    expect(app.waits).toHaveLength(10);
    expect(await app.store.counts()).toMatchObject({ done: 10, pending: 200 });
  });

  test("of everything ends when only events without an account are left", async () => {
    const app = appOf(() => 503);
    await app.store.add(eventOf("stray", "booking:OLD"));
    app.queue.start();
    for (let n = 0; n < 10; n += 1) await app.send(`a${n}`, `B${n}`);
    await advance(MINUTE);
    expect(app.queue.pause).toMatchObject({ scope: "everything" });
    for (let n = 0; n < 10; n += 1) await app.store.discard({ account: `a${n}` });
    await advance(MINUTE);
    expect([app.queue.pause, app.queue.pausedAccounts]).toEqual([undefined, []]);
  });

  test("that two processes saw, and one of them ends: neither says paused 60 s later", async () => {
    const store = memoryStore();
    let isDown = true;
    const [one, other] = [0, 1].map(() => appOf(() => (isDown ? 503 : 200), { store }));
    for (const app of [one!, other!]) app.queue.start();
    for (let n = 0; n < 40; n += 1) await one!.send("a", `B${n}`);
    await advance(MINUTE);
    await Promise.all([one!, other!].map((app) => app.queue.checkPauses()));
    expect([one!, other!].map((app) => app.queue.pausedAccounts.length)).toEqual([1, 1]);
    isDown = false;
    await advance(MINUTE);
    expect((await store.counts()).done).toBe(40);
    expect([one!, other!].map((app) => app.queue.pausedAccounts)).toEqual([[], []]);
    await Promise.all([one!, other!].map((app) => app.queue.close(0)));
  });
});

describe("revoked tokens", () => {
  test("of 100 accounts with 20 events each: few calls and reads, parked after giveUpAfter, then none", async () => {
    const app = appOf((account) => (account.startsWith("bad") ? 401 : 200), { giveUpAfter: 2 * MINUTE });
    const count = () => Object.values(app.calls).reduce((sum, calls) => sum + calls, 0);
    app.queue.start();
    for (let n = 0; n < 20; n += 1) for (let k = 0; k < 100; k += 1) await app.send(`bad${k}`, `B${n}`);
    await app.until(70 * SECOND);
    const before = count();
    await app.until(100 * SECOND);
    expect(readsIn(app, 70 * SECOND, 100 * SECOND)).toBeLessThanOrEqual(10);
    expect((count() - before) / 30).toBeLessThanOrEqual(25);
    expect(app.queue.pausedAccounts).toHaveLength(100);
    await app.until(9 * MINUTE);
    expect(await app.store.counts()).toMatchObject({ parked: 2000, pending: 0, retrying: 0 });
    for (const { reason, history } of await app.store.list({ state: "parked", limit: 2000 }))
      expect([reason, history.at(-1)?.outcome]).toEqual(["unavailable", "parked"]);
    await app.until(10 * MINUTE);
    const [{ length }, calls] = [app.reads, count()];
    expect(app.queue.pausedAccounts).toEqual([]);
    await app.until(12 * MINUTE);
    expect([app.reads.length, count() - calls]).toEqual([length, 0]);
  });

  test("of one account: the events that waited are done within 60 s of the new token, also in a new process", async () => {
    const store = memoryStore();
    let isRevoked = true;
    const make = () => appOf(() => (isRevoked ? 401 : 200), { store });
    const old = make();
    old.queue.start();
    for (let n = 0; n < 40; n += 1) {
      await old.send("a", `B${n}`);
      await advance(90 * SECOND);
    }
    // The operator discards the only event that an operator sees as tried.
    await store.discard({ state: "retrying" });
    await old.queue.close(0);
    isRevoked = false;
    const other = make();
    other.queue.start();
    await advance(MINUTE);
    expect(await store.counts()).toMatchObject({ pending: 0, retrying: 0 });
    await other.queue.close(0);
  });

  test("of an account that is erased: it is paused no more, and its token is asked for no more", async () => {
    const app = appOf((account) => (account === "gone" ? 401 : 200));
    app.queue.start();
    for (let n = 0; n < 5; n += 1) await app.send("gone", `B${n}`);
    await advance(2 * MINUTE);
    await app.store.eraseAccount!("gone");
    await advance(MINUTE);
    expect(app.queue.pausedAccounts).toEqual([]);
    const { length } = app.reads;
    await advance(DAY);
    expect(app.reads).toHaveLength(length);
  });
});
