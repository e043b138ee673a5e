import { describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { type Answer, appOf, quantile, type Read } from "./lanes.support.ts";
import { advance, DAY, first, HOUR, MINUTE, SECOND, useFakeTime } from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));
vi.setConfig({ testTimeout: 120_000 });

const isOther = ({ account }: { readonly account: string }) => account.startsWith("ok");

/** Checks that the others were handled as if they were alone. */
function expectUnharmed({ waits }: ReturnType<typeof appOf>, count: number): void {
  const others = waits.filter(isOther);
  expect(others).toHaveLength(count);
  expect(quantile(others, 0.5)).toBeLessThan(50);
  expect(quantile(others, 0.95)).toBeLessThan(SECOND);
}

/** Returns the largest number of reads in any second. */
function mostInASecond(reads: readonly Read[]): number {
  let most = 0;
  for (let from = 0, to = 0; to < reads.length; to += 1) {
    while (reads[to]!.at - reads[from]!.at >= SECOND) from += 1;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

describe("one account", () => {
  test.each<{ what: string; answer: Answer; most: number }>([
    // Each second, one event that has just arrived is a try.
    { what: "whose token is revoked", answer: 401, most: 26 },
    { what: "that is limited for 20 s", answer: { retryAfter: 20 }, most: 4 },
    { what: "whose reads all answer 500", answer: 500, most: 30 },
    { what: "whose reads all hang", answer: "hangs", most: 30 },
  ])("$what harms no other", async ({ answer, most }) => {
    const app = appOf((account) => (account === "bad" ? answer : 200));
    app.queue.start();
    await app.others(36, 25, 299, (second) => app.send("bad", `B${second}`));
    await advance(SECOND);
    expectUnharmed(app, 900);
    expect(app.reads.filter(({ account }) => account === "bad").length).toBeLessThanOrEqual(most);
    expect(app.queue.state).toBe("running");
    // Reads that hang may all have begun within the first ten seconds.
    if (answer !== "hangs") expect(app.queue.pausedAccounts).toMatchObject([{ account: "bad" }]);
    for (const event of await app.store.list({ state: "pending", limit: 100 }))
      expect(event).toMatchObject({ attempts: 0, history: [] });
  });

  test("that is sent 100 unknown codes a second harms no other, and its own known bookings go on", async () => {
    const app = appOf((_, id) => (id.includes("FORGED") ? 404 : 200));
    await app.store.learn("bad/booking:KNOWN", { status: "Confirmed", fields: {} });
    app.queue.start();
    await app.others(36, 25, 299, async (second) => {
      for (let n = 0; n < 100; n += 1) await app.send("bad", `FORGED${second}-${n}`);
      if (second % 5 === 4) await app.send("bad", "KNOWN");
    });
    await advance(10 * SECOND);
    expectUnharmed(app, 900);
    const known = app.waits.filter(({ id }) => id.includes("KNOWN"));
    expect(known).toHaveLength(5);
    expect(quantile(known, 1)).toBeLessThan(5 * SECOND);
    expect(
      mostInASecond(app.reads.filter(({ account, at }) => account === "bad" && at > SECOND)),
    ).toBeLessThanOrEqual(50);
  });

  test.each([2, 300])(
    "with %i bookings whose read answers 500 delays its own good ones little",
    async (count) => {
      const app = appOf((_, id) => (id.includes("BAD") ? 500 : 200));
      app.queue.start();
      await app.send("a", "KNOWN");
      await app.until(10 * SECOND);
      for (let n = 0; n < count; n += 1) await app.send("a", `BAD${n}`);
      await app.others(1, 100, 5, (second) => second % 10 === 0 && app.send("a", `GOOD${second}`));
      await advance(15 * SECOND);
      const good = app.waits.filter(({ id }) => id.includes("GOOD"));
      expect(good).toHaveLength(10);
      expect(quantile(good, 1)).toBeLessThanOrEqual(15 * SECOND);
    },
  );

  test("that sends 100 a second gives way to others, and is as fast as ever without them", async () => {
    const handled = async (rate: number): Promise<[number, ReturnType<typeof appOf>]> => {
      const app = appOf(() => 200, { latency: (account) => (account === "bad" ? 300 : 20) });
      app.queue.start();
      // In its first minute, a process cannot know that it serves one account.
      const from = rate === 0 ? MINUTE : 0;
      await app.until(from);
      let next = 0;
      const flood = async (until: number): Promise<void> => {
        for (; next < until / 10; next += 1) {
          await app.until(from + next * 10);
          await app.send("bad", `B${next}`);
        }
      };
      for (let n = 0; n < rate * 25; n += 1) {
        await flood((n * SECOND) / rate);
        await app.send(`ok${n % 299}`, `R${n}`);
      }
      await flood(25 * SECOND);
      const count = app.waits.filter((wait) => !isOther(wait)).length;
      await advance(SECOND);
      return [count, app];
    };
    const [beside, app] = await handled(36);
    expectUnharmed(app, 900);
    expect(beside).toBeGreaterThan((25 / 0.3) * 5 * 0.9);
    const [alone] = await handled(0);
    expect(alone).toBeGreaterThan((25 / 0.3) * 10 * 0.9);
  });

  test.each([
    { concurrency: 10, latency: 3000 },
    { concurrency: 3, latency: 500 },
    { concurrency: 1, latency: 500 },
  ])(
    "with a backlog of slow events gives way to one event of another: %o",
    async ({ concurrency, latency }) => {
      const policy = { concurrency };
      const app = appOf(() => 200, { latency: (account) => (account === "bad" ? latency : 20), ...policy });
      for (let n = 0; n < 600; n += 1) await app.send("bad", `B${n}`);
      app.queue.start();
      for (let n = 0; n < 5; n += 1) {
        await advance(7 * SECOND);
        await app.send(`ok${n}`, `R${n}`);
      }
      await advance(latency + SECOND);
      const others = app.waits.filter(isOther);
      expect(others).toHaveLength(5);
      // A slot is free at the latest when an attempt ends.
      expect(quantile(others, 1)).toBeLessThanOrEqual(latency + 500);
      const share = (app.now() / latency) * concurrency;
      expect(app.waits.length - others.length).toBeGreaterThan(share * (concurrency === 1 ? 0.8 : 0.45));
    },
  );

  test("uses half of the slots in the first minute of a process, and all of them while no other is there", async () => {
    const app = appOf(() => 200, { latency: () => SECOND });
    for (let n = 0; n < 2000; n += 1) await app.send("bad", `B${n}`);
    app.queue.start();
    const startedIn = (from: number) =>
      app.reads.filter(({ at }) => at >= from && at < from + 10 * SECOND).length;
    await app.until(90 * SECOND);
    expect(startedIn(20 * SECOND)).toBe(50);
    expect(startedIn(70 * SECOND)).toBe(100);
    await app.send("ok", "R");
    await app.until(170 * SECOND);
    expect(startedIn(110 * SECOND)).toBe(50);
    expect(startedIn(155 * SECOND)).toBe(100);
    expect(quantile(app.waits.filter(isOther), 1)).toBeLessThanOrEqual(2 * SECOND);
  });

  test("pauses its bookings, and its listings go on", async () => {
    const app = appOf((_, id) => (id.startsWith("booking") ? 503 : 200));
    app.queue.start();
    for (let n = 0; n < 5; n += 1) await app.send("a", `B${n}`);
    await advance(5 * SECOND);
    expect(app.queue.pausedAccounts).toMatchObject([{ account: "a", scope: "bookings" }]);
    await app.send("a", "", { ref: "a/listing:1" });
    await advance(SECOND);
    expect(app.waits).toMatchObject([{ id: "listing:1" }]);
    expect(app.observed.filter(({ kind }) => kind === "paused")[0]).toMatchObject({
      account: "a",
      scope: "bookings",
    });
  });
});

describe("everything", () => {
  test("503 for all is an outage of everything, with one read a second in all", async () => {
    const [from, to] = [10 * SECOND, 130 * SECOND];
    const app = appOf((_, __, at) => (at >= from && at < to ? 503 : 200));
    app.queue.start();
    await app.others(36, 130, 300);
    const inVain = app.reads.filter(({ at }) => at >= from + 10 * SECOND && at < to);
    expect(mostInASecond(inVain)).toBeLessThanOrEqual(1);
    expect(app.queue.pause).toMatchObject({ scope: "everything" });
    for (const state of ["pending", "retrying"] as const)
      for (const event of await app.store.list({ state, limit: 5000 })) expect(event.attempts).toBe(0);
    await app.until(to + MINUTE);
    expect(app.waits).toHaveLength(130 * 36);
    expect([app.queue.state, app.queue.pausedAccounts]).toEqual(["running", []]);
  });
});

describe("whatever waits for a lane", () => {
  test.each([1, 6])(
    "is due within a minute of its return: a timer alone, bookings out for %i h",
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
        await app.queue.close(0);
      }
    },
  );

  test.each(["a/", ""])(
    "is tried where no record is known, also if a 429 ends an outage: %j",
    async (prefix) => {
      let reads = 0;
      const app = appOf((_, id, at) => (at > SECOND ? 200 : id.endsWith("2") ? { retryAfter: 3 } : 503), {
        hasAccounts: prefix !== "",
        latency: () => (reads++ === 2 ? 200 : 20),
      });
      app.queue.start();
      for (let n = 0; n < 3; n += 1) await app.send("a", "", { ref: `${prefix}booking:B${n}` });
      await app.until(SECOND);
      expect(app.queue.pause ?? app.queue.pausedAccounts[0]).toMatchObject({
        scope: prefix === "" ? "everything" : "account",
      });
      await app.until(MINUTE);
      expect(app.waits).toHaveLength(3);
    },
  );

  test("is not written again each minute, and goes on when a revoked token is replaced after days", async () => {
    const back = 2 * DAY;
    const app = appOf((account, _, at) => (account === "a" && at < back ? 401 : 200));
    app.queue.start();
    for (let n = 0; n < 200; n += 1) await app.send("a", `B${n}`);
    await app.until(DAY);
    const before = app.calls.settle;
    await app.until(DAY + HOUR);
    // 200 events in each quarter of an hour, and the few that look out.
    expect(app.calls.settle - before).toBeLessThan(200 * 5 + 400);
    await app.until(back + MINUTE);
    expect(app.waits).toHaveLength(200);
    for (const { history } of await app.store.list({ state: "done", limit: 200 }))
      expect(history.length).toBeLessThanOrEqual(10);
  });

  test("is found by another process, if the one that put it back has ended", async () => {
    let isRevoked = true;
    const store = memoryStore();
    const make = () => appOf((account) => (account === "a" && isRevoked ? 401 : 200), { store });
    const old = make();
    old.queue.start();
    for (let n = 0; n < 50; n += 1) await old.send("a", `B${n}`);
    await advance(2 * HOUR);
    await old.queue.close(0);
    isRevoked = false;
    const other = make();
    other.queue.start();
    for (const [id, at] of old.sent) other.sent.set(id, at);
    await advance(MINUTE);
    expect(other.waits).toHaveLength(50);
  });
});

test.each([2000])("%i waiting events of a shut lane delay no other by more than 1 s", async (count) => {
  const wait = () => new Promise((resolve) => setTimeout(resolve, 5));
  const app = appOf((account) => (account === "bad" ? 401 : 200), {
    // A server needs some ms for each statement.
    alter: {
      claim: first(wait),
      settle: first(wait),
    },
  });
  app.queue.start();
  for (let n = 0; n < count; n += 1) await app.send("bad", `B${n}`);
  await app.send("ok", "R");
  await advance(SECOND);
  expect(app.waits.filter(isOther)).toHaveLength(1);
});

test("a queue forgets accounts that are well again", async () => {
  let isDown = true;
  const app = appOf(() => (isDown ? 401 : 200));
  app.queue.start();
  await app.send("a", "A");
  await advance(SECOND);
  expect(app.queue.pausedAccounts).toHaveLength(1);
  isDown = false;
  await advance(MINUTE);
  expect(app.queue.gates.size).toBe(0);
});
