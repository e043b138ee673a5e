// Outages and accounts in simulated time. A read takes 20 ms unless a row says otherwise, and there are ten slots.
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { sized } from "../support/soak.ts";
import { type Answer, appOf, quantile } from "./lanes.support.ts";
import {
  advance,
  alteredStore,
  callbackFailed,
  DAY,
  eventOf,
  first,
  HOUR,
  idsOf,
  MINUTE,
  outOfReach,
  queueOf,
  SECOND,
  sleep,
  useFakeTime,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));
type App = ReturnType<typeof appOf>;
/** Closes the queue. An attempt that runs at this moment ends only if time passes. */
const closed = async ({ queue }: App) => {
  const closing = queue.close(0);
  await advance(SECOND);
  await closing;
};
const of = (app: App, account: string) => app.waits.filter((wait) => wait.account === account);
const named = (app: App, name: string) => app.waits.filter(({ id }) => id.includes(name));
const othersOf = (app: App) => app.waits.filter(({ account }) => account.startsWith("ok"));
const readsIn = (app: App, from: number, to: number) =>
  app.reads.filter(({ at }) => at >= from && at < to).length / ((to - from) / SECOND);

describe("one account", () => {
  test.each<{ what: string; answer: Answer; most: number }>([
    // Each second, one event that has just arrived is a try.
    { what: "whose token is revoked", answer: 401, most: 30 },
    { what: "that is limited for 20 s", answer: { retryAfter: 20 }, most: 4 },
    { what: "whose reads all answer 500", answer: 500, most: 30 },
    { what: "whose reads all hang", answer: "hangs", most: 30 },
  ])("$what harms no other", async ({ answer, most }) => {
    const app = appOf((account) => (account === "bad" ? answer : 200));
    app.queue.start();
    await app.others(36, 25, 299, (second) => app.send("bad", `B${second}`));
    await advance(SECOND);
    expect(othersOf(app)).toHaveLength(900);
    expect(quantile(othersOf(app), 0.5)).toBeLessThan(50);
    expect(quantile(othersOf(app), 0.95)).toBeLessThan(SECOND);
    expect(app.reads.filter(({ account }) => account === "bad").length).toBeLessThanOrEqual(most);
    expect(app.queue.state).toBe("running");
    // Reads that hang may all have begun within the first ten seconds.
    if (answer !== "hangs") expect(app.queue.pausedAccounts).toMatchObject([{ account: "bad" }]);
    for (const event of await app.store.list({ state: "pending", limit: 100 }))
      expect(event).toMatchObject({ attempts: 0, history: [] });
  });

  test.each([
    { concurrency: 10, latency: 3000 },
    { concurrency: 3, latency: 500 },
    { concurrency: 1, latency: 500 },
  ])("with slow events gives way to one event of another: %o", async ({ concurrency, latency }) => {
    const app = appOf(() => 200, { latency: (account) => (account === "bad" ? latency : 20), concurrency });
    for (let n = 0; n < 600; n += 1) await app.send("bad", `B${n}`);
    app.queue.start();
    for (let n = 0; n < 5; n += 1) {
      await advance(7 * SECOND);
      await app.send(`ok${n}`, `R${n}`);
    }
    await advance(latency + SECOND);
    expect(othersOf(app)).toHaveLength(5);
    // A slot is free at the latest when an attempt ends.
    expect(quantile(othersOf(app), 1)).toBeLessThanOrEqual(latency + 500);
    const share = (app.now() / latency) * concurrency;
    expect(app.waits.length - 5).toBeGreaterThan(share * (concurrency === 1 ? 0.8 : 0.45));
  });

  test("uses half of the slots in the first minute of a process, and all of them while no other is there", async () => {
    const app = appOf(() => 200, { latency: () => SECOND });
    for (let n = 0; n < 2000; n += 1) await app.send("bad", `B${n}`);
    app.queue.start();
    await app.until(90 * SECOND);
    expect([readsIn(app, 20_000, 30_000), readsIn(app, 70_000, 80_000)]).toEqual([5, 10]);
    await app.send("ok", "R");
    await app.until(170 * SECOND);
    expect([readsIn(app, 110_000, 120_000), readsIn(app, 155_000, 165_000)]).toEqual([5, 10]);
    expect(quantile(othersOf(app), 1)).toBeLessThanOrEqual(2 * SECOND);
  });

  test("has all slots after its first minute, although its callbacks take long and nothing changes", async () => {
    const app = appOf(() => 200, { latency: () => 10 * MINUTE });
    app.queue.start();
    for (let n = 0; n < 20; n += 1) await app.send("bad", `B${n}`);
    await app.until(50 * SECOND);
    expect(app.reads).toHaveLength(5);
    await app.until(70 * SECOND);
    expect(app.reads).toHaveLength(10);
  });

  test("whose 500 events are slow for two minutes has them done within 90 s of the last slow one", async () => {
    let isSlow = true;
    const app = appOf(() => 200, { latency: (account) => (account === "a" && isSlow ? MINUTE : 5) });
    app.queue.start();
    for (let n = 0; n < 500; n += 1) await app.send("a", `A${n}`);
    for (let n = 0; n < 12; n += 1) {
      await app.until(n * 20 * SECOND);
      isSlow = app.now() < 2 * MINUTE;
      await app.send("b", `B${n}`);
    }
    const ends = of(app, "a").map(({ at, wait }) => at + wait);
    await app.until(Math.max(...ends.filter((at) => at < 4 * MINUTE)) + 90 * SECOND);
    expect(of(app, "a")).toHaveLength(500);
    expect(quantile(of(app, "b"), 1)).toBeLessThan(SECOND);
  });
});

describe("bookings that fail for ever, and a good one a minute", () => {
  test.each([
    { count: 2, answer: 500, most: SECOND },
    { count: 300, answer: 500, most: SECOND },
    { count: 2, answer: "hangs", most: 10 * SECOND },
    { count: 300, answer: "hangs", most: 10 * SECOND },
  ] as const)("$count of them, with $answer: p95 of the good ones under $most ms", async (row) => {
    for (const hasAccounts of [true, false]) {
      const prefix = hasAccounts ? "a/" : "";
      const app = appOf((_, id) => (id.includes("BAD") ? row.answer : 200), { hasAccounts });
      app.queue.start();
      for (let n = 0; n < row.count; n += 1) await app.send("a", "", { ref: `${prefix}booking:BAD${n}` });
      const count = sized(20, 60);
      for (let n = 0; n < count; n += 1) {
        await app.until(5 * SECOND + n * MINUTE);
        await app.send("a", "", { ref: `${prefix}booking:GOOD${n}` });
      }
      await advance(MINUTE);
      expect(named(app, "GOOD")).toHaveLength(count);
      expect(quantile(named(app, "GOOD"), 0.95)).toBeLessThan(row.most);
      await closed(app);
    }
  });

  test("half of the records down for half an hour: p95 of the others under 1 s", async () => {
    const app = appOf((_, id, at) => (id.includes("BAD") && at < 30 * MINUTE ? 503 : 200));
    app.queue.start();
    const count = sized(500, 1500);
    for (let n = 0; n < count; n += 1) {
      await app.until(n * 200);
      await app.send("a", n % 2 ? `BAD${n}` : `GOOD${n}`);
    }
    await advance(MINUTE);
    expect(named(app, "GOOD")).toHaveLength(count / 2);
    expect(quantile(named(app, "GOOD"), 0.95)).toBeLessThan(SECOND);
  });
});

describe("an outage", () => {
  test("of many minutes, one event a second: one read a second, nothing counted, all done 60 s after it", async () => {
    const [from, to] = [2 * MINUTE, sized(10, 32) * MINUTE];
    const app = appOf((_, __, at) => (at >= from && at < to ? 503 : 200));
    app.queue.start();
    for (let n = 0; n < (to + MINUTE) / SECOND; n += 1) {
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

  test.each([1, 6].slice(0, sized(1, 2)))(
    "of %i h, with one timer alone: it is done within a minute of the return",
    async (hours) => {
      const back = HOUR * hours + 10 * MINUTE;
      for (const prefix of ["a/", ""]) {
        const app = appOf((_, __, at) => (at < back ? 503 : 200), { hasAccounts: prefix !== "" });
        app.queue.start();
        await app.until(10 * MINUTE);
        await app.send("a", "", { ref: `${prefix}booking:T`, source: "timer", eventId: `${prefix}timer` });
        app.sent.set(`${prefix}timer`, app.now());
        await app.until(back + MINUTE);
        expect(app.waits).toHaveLength(1);
        expect((await app.store.get(`${prefix}timer`))?.attempts).toBe(1);
        await closed(app);
      }
    },
  );

  test.each(["a/", ""])("that a 429 ends is tried where no record is known: %j", async (prefix) => {
    let reads = 0;
    const hasAccounts = prefix !== "";
    const app = appOf((_, id, at) => (at > SECOND ? 200 : id.endsWith("2") ? { retryAfter: 3 } : 503), {
      ...{ hasAccounts, latency: () => (reads++ === 2 ? 200 : 20) },
    });
    app.queue.start();
    for (let n = 0; n < 3; n += 1) await app.send("a", "", { ref: `${prefix}booking:B${n}` });
    await app.until(SECOND);
    const scope = hasAccounts ? "account" : "everything";
    expect(app.queue.pause ?? app.queue.pausedAccounts[0]).toMatchObject({ scope });
    await app.until(MINUTE);
    expect(app.waits).toHaveLength(3);
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
    const apps = [0, 1].map(() => appOf(() => (isDown ? 503 : 200), { store }));
    for (const { queue } of apps) queue.start();
    for (let n = 0; n < 40; n += 1) await apps[0]!.send("a", `B${n}`);
    await advance(MINUTE);
    await Promise.all(apps.map(({ queue }) => queue.checkPauses()));
    expect(apps.map(({ queue }) => queue.pausedAccounts.length)).toEqual([1, 1]);
    isDown = false;
    await advance(MINUTE);
    expect((await store.counts()).done).toBe(40);
    expect(apps.map(({ queue }) => queue.pausedAccounts)).toEqual([[], []]);
    await Promise.all(apps.map(closed));
  });
});

describe("revoked tokens", () => {
  test("of many accounts with 20 events each: few calls and reads, parked after giveUpAfter, then none", async () => {
    const accounts = sized(25, 100);
    const app = appOf((account) => (account.startsWith("bad") ? 401 : 200), { giveUpAfter: 2 * MINUTE });
    const count = () => Object.values(app.calls).reduce((sum, calls) => sum + calls, 0);
    app.queue.start();
    for (let n = 0; n < 20; n += 1) for (let k = 0; k < accounts; k += 1) await app.send(`bad${k}`, `B${n}`);
    await app.until(70 * SECOND);
    const before = count();
    await app.until(100 * SECOND);
    expect(readsIn(app, 70 * SECOND, 100 * SECOND)).toBeLessThanOrEqual(accounts / 10);
    expect((count() - before) / 30).toBeLessThanOrEqual(accounts / 4);
    expect(app.queue.pausedAccounts).toHaveLength(accounts);
    await app.until(9 * MINUTE);
    expect(await app.store.counts()).toMatchObject({ parked: 20 * accounts, pending: 0, retrying: 0 });
    for (const { reason, history } of await app.store.list({ state: "parked", limit: 2000 }))
      expect([reason, history.at(-1)?.outcome]).toEqual(["unavailable", "parked"]);
    await app.until(10 * MINUTE);
    const [{ length }, calls] = [app.reads, count()];
    expect(app.queue.pausedAccounts).toEqual([]);
    await app.until(12 * MINUTE);
    expect([app.reads.length, count() - calls]).toEqual([length, 0]);
  });

  test("for hours: few writes, and a short history of each event when the token is replaced", async () => {
    const back = sized(4, 12) * HOUR;
    const app = appOf((_, __, at) => (at < back ? 401 : 200));
    app.queue.start();
    for (let n = 0; n < 50; n += 1) await app.send("a", `B${n}`);
    await app.until(back - 2 * HOUR);
    const before = app.calls.settle;
    await app.until(back - HOUR);
    // 50 events in each quarter of an hour, and the few that look out.
    expect(app.calls.settle - before).toBeLessThan(50 * 5 + 400);
    await app.until(back + MINUTE);
    expect(app.waits).toHaveLength(50);
    for (const { history } of await app.store.list({ state: "done", limit: 50 }))
      expect(history.length).toBeLessThanOrEqual(10);
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
    await closed(old);
    isRevoked = false;
    const other = make();
    other.queue.start();
    await advance(MINUTE);
    expect(await store.counts()).toMatchObject({ pending: 0, retrying: 0 });
    await closed(other);
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

  test("of one account with 2,000 events: another one is not delayed by more than 1 s", async () => {
    // A server needs some ms for each statement.
    const wait = () => sleep(5);
    const app = appOf((account) => (account === "bad" ? 401 : 200), {
      alter: { claim: first(wait), settle: first(wait) },
    });
    app.queue.start();
    for (let n = 0; n < 2000; n += 1) await app.send("bad", `B${n}`);
    await app.send("ok", "R");
    await advance(SECOND);
    expect(othersOf(app)).toHaveLength(1);
  });
});
