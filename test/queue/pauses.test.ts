// What happens to events, and to gates, in a pause that lasts: rules 5 and 6 of gates.ts.
import { beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { type Answer, appOf } from "./lanes.support.ts";
import {
  advance,
  alteredStore,
  eventOf,
  HOUR,
  idsOf,
  MINUTE,
  never,
  outOfReach,
  SECOND,
  sleep,
  useFakeTime,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

type App = ReturnType<typeof appOf>;

/** The platform asks for so long a wait that few events are tries. */
const limited: Answer = { retryAfter: 150 };
/** How long events wait, ms. */
const LONG = 10 * MINUTE;

/** Makes an app that gives up after ten minutes. */
const giving = (answer: Parameters<typeof appOf>[0], options?: Parameters<typeof appOf>[1]) =>
  appOf(answer, { giveUpAfter: LONG, ...options });

/** Adds events that are the next tries, because they are the newest. */
async function addNewer(app: App): Promise<void> {
  for (const id of idsOf(6, `newer at ${app.now()},`)) await app.send("a", id);
}

/** Shuts the gate of account a, and adds an event that waits behind it. */
async function paused(app: App): Promise<{ tried: string; waits: string }> {
  app.queue.start();
  const tried = await app.send("a", "TRIED");
  await advance(SECOND);
  await app.send("a", "FIRST");
  await advance(1);
  const waits = await app.send("a", "WAITS");
  await addNewer(app);
  return { tried, waits };
}

/** Expects that the event is parked within five minutes after `at`, but not a minute before, and without a read. */
async function expectGivenUp(app: App, eventId: string, at: number): Promise<void> {
  await app.until(at - MINUTE);
  const before = await app.store.get(eventId);
  expect(before?.state).not.toBe("parked");
  const reads = () => app.reads.filter(({ id }) => before?.ref === `a/${id}`).length;
  const begun = reads();
  await app.until(at + 5 * MINUTE);
  expect(reads()).toBe(begun);
  const event = await app.store.get(eventId);
  expect(event).toMatchObject({ state: "parked", reason: "unavailable" });
  expect(event?.history.at(-1)).toMatchObject({
    outcome: "parked",
    reason: "unavailable",
    error: expect.stringMatching(/out of reach for longer than giveUpAfter .*Replay the event/),
  });
  const observed = app.observed.filter((each) => each.kind === "parked" && each.eventId === eventId);
  expect(observed).toMatchObject([{ reason: "unavailable", ref: before?.ref }]);
}

describe("giveUpAfter holds in a pause for an event", () => {
  test("that was tried", async () => {
    const app = giving(() => limited);
    const { tried } = await paused(app);
    await expectGivenUp(app, tried, LONG);
    expect(app.reads.filter(({ id }) => id === "booking:TRIED")).toHaveLength(1);
  });

  test("that was never read", async () => {
    const app = giving(() => limited);
    const { waits } = await paused(app);
    await expectGivenUp(app, waits, LONG + SECOND + 1);
    expect(app.reads.filter(({ id }) => id === "booking:WAITS")).toEqual([]);
  });

  test("that was replayed", async () => {
    const app = giving(() => limited);
    const { waits } = await paused(app);
    const [claim] = await app.store.claim({ limit: 1, eventId: waits, leaseDuration: HOUR });
    await app.store.settle(claim!, { state: "parked", reason: "callback", entry: { duration: 1 } });
    await app.until(7 * MINUTE);
    await app.store.replay({ eventId: waits });
    await addNewer(app);
    await expectGivenUp(app, waits, LONG + 7 * MINUTE);
    expect((await app.store.get(waits))?.history).toHaveLength(2);
  });

  test("that is a timer which became due", async () => {
    const app = giving(() => limited);
    await paused(app);
    const timer = { ...eventOf("a/timer", "a/booking:TIMER"), source: "timer" as const };
    await app.store.add(timer, { dueIn: 7 * MINUTE });
    const at = app.now() + 7 * MINUTE;
    await app.until(at);
    await addNewer(app);
    await expectGivenUp(app, "a/timer", at + LONG);
  });

  test("whose process has been replaced: since its first failed read, or since the gate shut here", async () => {
    const store = memoryStore();
    const old = giving(() => limited, { store, concurrency: 1 });
    const { tried, waits } = await paused(old);
    await old.until(7 * MINUTE);
    await old.queue.close(0);
    const app = giving(() => limited, { store, concurrency: 1 });
    app.queue.start();
    await expectGivenUp(app, tried, 3 * MINUTE);
    await addNewer(app);
    await expectGivenUp(app, waits, LONG);
  });

  test.each(["a/", ""])("of a lane whose reads fail, if none was answered: %j", async (prefix) => {
    const app = giving(() => 503, { hasAccounts: prefix !== "" });
    app.queue.start();
    for (const id of idsOf(6))
      await app.send("a", "", { eventId: `${prefix}${id}`, ref: `${prefix}booking:${id}` });
    await app.until(LONG - MINUTE);
    expect(await app.store.counts()).toMatchObject({ parked: 0, retrying: 6 });
    await app.until(LONG + 5 * MINUTE);
    expect(await app.store.counts()).toMatchObject({ parked: 6, retrying: 0 });
    const { length } = app.reads;
    await app.until(LONG + HOUR);
    expect(app.reads).toHaveLength(length);
    expect([app.queue.pause, app.queue.pausedAccounts]).toEqual([undefined, []]);
  });

  test("that was replayed behind one of the same record that fails", async () => {
    const app = giving(() => 503);
    app.queue.start();
    for (const id of idsOf(6)) await app.send("a", id);
    const behind = await app.send("a", "", { ref: "a/booking:e 0" });
    await app.until(MINUTE);
    await app.store.discard({ eventId: behind });
    await app.store.replay({ eventId: behind });
    await app.until(MINUTE + LONG + 5 * MINUTE);
    expect(await app.store.get(behind)).toMatchObject({ state: "parked", reason: "unavailable" });
  });

  test("although all slots are taken", async () => {
    const app = giving(() => limited, {
      concurrency: 1,
      attemptTimeout: HOUR,
      work: ({ ref }) => (ref === null ? never() : outOfReach(150 * SECOND)),
    });
    app.queue.start();
    const tried = await app.send("a", "TRIED");
    await advance(SECOND);
    await app.send("b", "", { ref: null });
    await advance(1);
    const waits = await app.send("a", "WAITS");
    await app.until(LONG + 5 * MINUTE);
    for (const eventId of [tried, waits])
      expect(await app.store.get(eventId)).toMatchObject({ state: "parked", reason: "unavailable" });
  });

  test("unless its lane is open", async () => {
    // A listing that was not found waits for three hours. The gate of the bookings is shut meanwhile.
    const app = giving((_, id) => (id.startsWith("listing") ? 404 : 500), { backoff: () => 3 * HOUR });
    app.queue.start();
    for (const id of idsOf(6)) await app.send("a", id);
    const listing = await app.send("a", "", { ref: "a/listing:1" });
    await app.until(30 * SECOND);
    expect(app.queue.pausedAccounts).toMatchObject([{ account: "a", scope: "bookings" }]);
    const before = await app.store.get(listing);
    expect(before).toMatchObject({ state: "retrying", attempts: 0, refusals: 1 });
    await app.until(2 * LONG);
    expect(await app.store.get(listing)).toEqual(before);
  });

  test("unless the platform may only hide it: it is read once more", async () => {
    const failure = { ...outOfReach(), outage: { everything: false, wholeKind: true } };
    const app = giving(() => 200, { work: () => failure });
    const { tried, waits } = await paused(app);
    const readsOf = (eventId: string) => app.ran.filter((id) => id === eventId).length;
    await app.until(LONG - SECOND);
    const before = readsOf(tried);
    await app.until(LONG + 5 * MINUTE);
    expect(await app.store.get(tried)).toMatchObject({ state: "parked", reason: "unavailable" });
    expect(readsOf(tried)).toBe(before + 1);
    expect(readsOf(waits)).toBeGreaterThan(0);
  });
});

describe("a gate lives only while something waits behind it", () => {
  /** Makes an app whose account a is refused, with one event that has failed. */
  async function refusedApp(options: Parameters<typeof appOf>[1] = {}, answer: Answer = 401) {
    const app = appOf(() => answer, options);
    app.queue.start();
    const eventId = await app.send("a", "X");
    // The first try comes 0.9 s later.
    await advance(SECOND / 2);
    expect(app.queue.pausedAccounts).toMatchObject([{ account: "a", scope: "account" }]);
    return { ...app, eventId };
  }

  /** Expects that the pause is over within a minute, and that no read follows. */
  async function expectOver(app: App): Promise<void> {
    await advance(MINUTE);
    expect(app.queue.pausedAccounts).toEqual([]);
    expect(app.queue.gates.size).toBe(0);
    expect(app.observed.at(-1)).toMatchObject({ kind: "resumed", account: "a" });
    const { length } = app.reads;
    await advance(LONG);
    expect(app.reads).toHaveLength(length);
  }

  test("of two processes, if the other one has handled all", async () => {
    const store = memoryStore();
    let isBack = false;
    const app = appOf(() => 401, { store });
    const other = appOf(() => (isBack ? 200 : 401), { store });
    for (const { queue } of [app, other]) queue.start();
    await app.send("a", "X");
    await advance(20 * SECOND);
    // While one process tries, the event is neither pending nor retrying. The other one goes on waiting all the same.
    for (const { queue, kinds } of [app, other]) {
      expect(queue.pausedAccounts).toMatchObject([{ account: "a" }]);
      expect(kinds()).not.toContain("resumed");
    }
    // Each process tries after 1, 2, 4 and 8 s.
    expect(app.reads.length + other.reads.length).toBeLessThanOrEqual(10);
    isBack = true;
    await advance(MINUTE);
    expect(await store.counts()).toMatchObject({ done: 1 });
    expect(other.queue.pausedAccounts).toEqual([]);
    await expectOver(app);
  });

  test.each<{ what: string; answer: Answer; clear: (app: App) => unknown }>([
    { what: "eraseAccount of a revoked one", answer: 401, clear: ({ store }) => store.eraseAccount?.("a") },
    { what: "discard of all", answer: 401, clear: ({ store }) => store.discard({ account: "a" }) },
    {
      what: "discard of all in a wait that was asked for",
      answer: { retryAfter: 900 },
      clear: ({ store }) => store.discard({ account: "a" }),
    },
  ])("and $what ends it", async ({ answer, clear }) => {
    const app = await refusedApp({}, answer);
    await clear(app);
    await expectOver(app);
  });

  test("and a look at the pauses ends it at once", async () => {
    const app = await refusedApp();
    await app.queue.checkPauses();
    expect(app.queue.pausedAccounts).toHaveLength(1);
    await app.store.discard({ account: "a" });
    await app.queue.checkPauses();
    expect(app.queue.pausedAccounts).toEqual([]);
  });

  test("and a timer far in the future does not keep it, until its time has come", async () => {
    const app = await refusedApp();
    const timer = { ...eventOf("a/timer", "a/booking:TIMER"), source: "timer" as const };
    await app.store.add(timer, { dueIn: HOUR });
    await app.store.discard({ eventId: app.eventId });
    await expectOver(app);
    await advance(HOUR);
    expect(app.reads.at(-1)).toMatchObject({ id: "booking:TIMER" });
    expect(app.queue.pausedAccounts).toHaveLength(1);
  });

  test.each([
    { what: "an event that waits for its next attempt", ref: "a/booking:Y" },
    { what: "an event of its other kind", ref: "a/listing:1" },
  ])("and $what keeps it", async ({ ref }) => {
    const app = await refusedApp({}, limited);
    await app.send("a", "", { ref });
    await app.store.discard({ eventId: app.eventId });
    await advance(10 * MINUTE);
    expect(app.queue.pausedAccounts).toHaveLength(1);
  });

  test.each([
    { what: "an event without a record", eventId: "a/message", ref: null },
    { what: "an event of another account", eventId: "b/1", ref: "b/booking:X" },
  ])("and $what does not keep it", async ({ eventId, ref }) => {
    const app = await refusedApp();
    const { store } = app;
    await store.add(eventOf(eventId, ref));
    const [claim] = await store.claim({ limit: 1, eventId, leaseDuration: HOUR });
    const failed = { reason: "callback", entry: { duration: 1 } } as const;
    await store.settle(claim!, { ...failed, state: "retrying", in: HOUR });
    await app.store.discard({ eventId: app.eventId });
    await expectOver(app);
  });

  test("and a pass of the reconciler that waits for long does not keep the event loop busy", async () => {
    const app = await refusedApp({}, limited);
    const pass = app.queue.gates.whileWaiting({ account: "a", kind: "listings" }, () => sleep(2 * MINUTE));
    const now = performance.now.bind(performance);
    // A loop that never waits would hang this test.
    const clock = vi.spyOn(performance, "now").mockImplementation(() => {
      if (clock.mock.calls.length > 10_000) throw new Error("the event loop is busy");
      return now();
    });
    await advance(2 * MINUTE);
    await pass;
    expect(clock.mock.calls.length).toBeLessThan(1000);
  });

  test("and a pass of the reconciler that waits keeps it", async () => {
    const app = await refusedApp();
    const pass = app.queue.gates.whileWaiting({ account: "a", kind: "listings" }, () => sleep(10 * MINUTE));
    await app.store.discard({ account: "a" });
    await advance(10 * MINUTE - SECOND);
    await app.queue.checkPauses();
    expect(app.queue.pausedAccounts).toHaveLength(1);
    await advance(SECOND);
    await pass;
    await expectOver(app);
  });
});

describe("an event that another process has recorded", () => {
  // The waits of gates vary by a tenth.
  beforeEach(() => {
    vi.spyOn(Math, "random").mockReturnValue(0.5);
  });

  test("is a try within a second, although the next one would come later", async () => {
    const app = appOf(() => 401);
    app.queue.start();
    await app.send("a", "X");
    // The tries begin after 1, 3, 7, 15 and 31 s.
    await app.until(17 * SECOND);
    await app.store.add(eventOf("a/other", "a/booking:OTHER"));
    await app.until(19 * SECOND);
    expect(app.reads.filter(({ id }) => id === "booking:OTHER")).toHaveLength(1);
  });

  test("and that reads no record is handled while everything is shut", async () => {
    const app = appOf(() => 503);
    app.queue.start();
    for (const account of ["a", "b"]) for (const id of idsOf(5)) await app.send(account, id);
    await app.until(17 * SECOND);
    expect(app.queue.pause).toMatchObject({ scope: "everything" });
    app.sent.set("a/message", app.now());
    await app.store.add(eventOf("a/message", null));
    await app.until(19 * SECOND);
    expect((await app.store.get("a/message"))?.state).toBe("done");
  });
});

test("in a pause of everything, waiting events are looked through every 30 s, and old ones every two minutes", async () => {
  const looks: { readonly what: string; readonly at: number }[] = [];
  const store = alteredStore(memoryStore(), {
    list:
      (own) =>
      async (options = {}) => {
        const { limit, state, receivedBefore } = options;
        const what = receivedBefore ? "old" : "waiting";
        if (limit === 200 && state === "pending") looks.push({ what, at: performance.now() });
        return own(options);
      },
  });
  const app = appOf(() => 503, { store });
  app.queue.start();
  for (const account of ["a", "b"]) for (const id of idsOf(5)) await app.send(account, id);
  await app.until(10 * MINUTE);
  expect(app.queue.pause).toMatchObject({ scope: "everything" });
  const gaps = (which: string): number[] => {
    const times = [
      ...new Set(looks.flatMap(({ what, at }) => (what === which ? [Math.round(at / SECOND)] : []))),
    ];
    return times.slice(1).map((at, n) => at - times[n]!);
  };
  expect(new Set(gaps("old"))).toEqual(new Set([120]));
  expect(new Set(gaps("waiting"))).toEqual(new Set([30]));
});
