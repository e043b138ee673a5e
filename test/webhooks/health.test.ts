import { forwardTo, memoryStore } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import { alteredStore, failing } from "../queue/support.ts";
import { advance, HOUR, handlerOf, notificationOf, useFakeTime } from "./support.ts";

const NOW = new Date("2026-05-01T12:00:00Z");

useFakeTime(NOW);

describe("health", () => {
  test("has the counts, the age of the oldest event in ms, and the time of the last notification", async () => {
    const { deliver, webhooks } = handlerOf({ autoStart: false });
    expect(await webhooks.health()).toEqual({
      state: "idle",
      counts: { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 },
      oldestWaitingAge: undefined,
      lastReceivedAt: undefined,
      pausedSince: undefined,
      pauseReason: undefined,
      pauseScope: undefined,
      pauseRef: undefined,
    });
    await deliver(notificationOf());
    await advance(90_000);
    expect(await webhooks.health()).toMatchObject({
      counts: { pending: 1 },
      oldestWaitingAge: 90_000,
      lastReceivedAt: NOW,
    });
  });

  test("has the schema version of a store that has one", async () => {
    const schema = { version: 3, expected: 2 };
    const store = Object.assign(memoryStore(), { schema: async () => schema });
    expect(await handlerOf({ store, autoStart: false }).webhooks.health()).toMatchObject({ schema });
    expect((await handlerOf({ autoStart: false }).webhooks.health()).schema).toBeUndefined();
  });

  test("does not count a refused request as received", async () => {
    const { deliver, webhooks } = handlerOf({ autoStart: false });
    expect((await deliver("no notification")).status).toBe(400);
    expect((await webhooks.health()).lastReceivedAt).toBeUndefined();
  });

  test("says what is paused, since when, why and by which record, and stopped when closed", async () => {
    const { webhooks, platform, notify } = handlerOf();
    platform.answer("*", { status: 401 });
    await notify("A1");
    await advance(60_000);
    expect(await webhooks.health()).toMatchObject({
      state: "paused",
      pausedSince: NOW,
      pauseReason: expect.stringContaining("AuthenticationError"),
      pauseScope: "everything",
      pauseRef: "booking:A1",
    });
    platform.booking("A1", "Confirmed");
    await advance(60_000);
    expect(await webhooks.health()).toMatchObject({
      state: "running",
      pausedSince: undefined,
      pauseReason: undefined,
    });
    await webhooks.close();
    expect((await webhooks.health()).state).toBe("stopped");
  });

  test("is unavailable if the store fails, and never rejects", async () => {
    const store = memoryStore();
    const { webhooks } = handlerOf({ store, autoStart: false });
    await store.close();
    expect(await webhooks.health()).toEqual({ state: "unavailable", error: expect.any(Error) });
  });

  test("is unavailable if the store does not answer within 10 s", async () => {
    const store = memoryStore();
    vi.spyOn(store, "counts").mockReturnValue(new Promise(() => {}));
    const { webhooks } = handlerOf({ store, autoStart: false });
    const health = webhooks.health();
    await advance(10_000);
    expect(await health).toMatchObject({
      state: "unavailable",
      error: { message: expect.stringMatching(/10000 ms/) },
    });
  });

  test("is unavailable while the store does not answer claims, though it counts", async () => {
    const store = memoryStore();
    const claim = vi.spyOn(store, "claim").mockReturnValue(new Promise(() => {}));
    const { webhooks, logger } = handlerOf({ store });
    webhooks.start();
    await advance(31_000);
    expect(await webhooks.health()).toEqual({
      state: "unavailable",
      error: expect.objectContaining({ message: "The store did not answer claim() within 30000 ms." }),
      counts: { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 },
    });
    expect(logger.lines.join()).toContain("the store failed");
    claim.mockRestore();
    await advance(31_000);
    expect((await webhooks.health()).state).toBe("running");
    await webhooks.close();
  });

  test.each<{ name: "counts" | "oldestWaiting" | "lastReceivedAt" | "claim"; told: object }>([
    { name: "counts", told: { oldestWaitingAge: 40_000 } },
    { name: "oldestWaiting", told: { counts: expect.objectContaining({ pending: 1 }) } },
    {
      name: "lastReceivedAt",
      told: { counts: expect.objectContaining({ pending: 1 }), oldestWaitingAge: 40_000 },
    },
    { name: "claim", told: { counts: expect.objectContaining({ pending: 1 }), oldestWaitingAge: 40_000 } },
  ])(
    "tells what the store answers while $name() fails, for alerts on parked and waiting events",
    async ({ name, told }) => {
      const error = new Error("the store is down");
      const store = alteredStore(memoryStore(), { [name]: failing(() => true, error.message) });
      const { deliver, webhooks } = handlerOf({ store, autoStart: name === "claim" });
      await deliver(notificationOf());
      await advance(40_000);
      expect(await webhooks.health()).toEqual({ state: "unavailable", error, ...told });
      await webhooks.close();
    },
  );

  test("tells why old events are not deleted, without another state, and the log says so once a minute", async () => {
    let isDown = true;
    const store = alteredStore(memoryStore(), { prune: failing(() => isDown, "DELETE refused") });
    const { webhooks, logger } = handlerOf({ store, retention: "1s" });
    webhooks.start();
    await advance(HOUR);
    expect(await webhooks.health()).toMatchObject({
      state: "running",
      retentionError: { message: "DELETE refused" },
    });
    const counts = vi.spyOn(store, "counts").mockRejectedValue(new Error("the store is down"));
    expect(await webhooks.health()).toMatchObject({
      state: "unavailable",
      retentionError: { message: "DELETE refused" },
    });
    counts.mockRestore();
    const lines = logger.lines.filter((line) => String(line).includes("could not delete old events"));
    expect(lines.length).toBeGreaterThan(50);
    expect(lines.length).toBeLessThanOrEqual(61);
    isDown = false;
    await advance(60_000);
    expect(await webhooks.health()).not.toHaveProperty("retentionError");
    await webhooks.close();
  });

  test("with forwardTo reports this process only", async () => {
    const { webhooks, deliver } = handlerOf({ store: forwardTo(() => {}) as never });
    await deliver(notificationOf());
    expect(await webhooks.health()).toMatchObject({
      state: "idle",
      lastReceivedAt: NOW,
      counts: { scheduled: 0, pending: 0 },
    });
  });
});

describe("ready", () => {
  test("resolves if the store answers, and with forwardTo", async () => {
    expect(await handlerOf().webhooks.ready()).toBeUndefined();
    expect(await handlerOf({ store: forwardTo(() => {}) as never }).webhooks.ready()).toBeUndefined();
  });

  test("rejects if the store fails", async () => {
    const store = memoryStore();
    await store.close();
    await expect(handlerOf({ store }).webhooks.ready()).rejects.toThrow("closed");
  });
});

test("receive answers 503, and never rejects, if the store was closed before the first request", async () => {
  const store = memoryStore();
  const { webhooks, deliver } = handlerOf({ store });
  await store.close();
  expect((await deliver(notificationOf())).status).toBe(503);
  const request = { method: "POST", url: "/", headers: {}, body: notificationOf() };
  for (const context of [undefined, { waitUntil: () => {} }])
    expect((await webhooks.receive(request, context)).status).toBe(503);
  const inline = handlerOf({ store, processing: "inline" });
  expect((await inline.deliver(notificationOf())).status).toBe(503);
});

test("above maxBacklog, notifications are answered 503 until events are discarded", async () => {
  const { deliver, store, kinds } = handlerOf({ autoStart: false, maxBacklog: 2 });
  const statuses: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    statuses.push((await deliver(notificationOf())).status);
    await advance(1_001);
  }
  expect(statuses).toEqual([200, 200, 200, 503, 503]);
  expect(kinds().slice(-2)).toEqual(["refused", "refused"]);
  await store.discard({ state: "pending" });
  await advance(1_001);
  expect((await deliver(notificationOf())).status).toBe(200);
});

test("a count that never ends holds notifications up for 3 s, and is asked for again", async () => {
  const store = memoryStore();
  const counts = vi.spyOn(store, "counts").mockReturnValueOnce(new Promise(() => {}));
  const { deliver, webhooks } = handlerOf({ store, autoStart: false, maxBacklog: 2 });
  const first = deliver(notificationOf());
  await advance(1000);
  const second = deliver(notificationOf());
  await advance(2_000);
  expect([(await first).status, (await second).status]).toEqual([200, 200]);
  const statuses: number[] = [];
  for (let n = 0; n < 3; n += 1) {
    statuses.push((await deliver(notificationOf())).status);
    await advance(1_001);
  }
  expect(statuses).toEqual([200, 503, 503]);
  expect(await webhooks.health()).toMatchObject({ counts: { pending: 3 } });
  counts.mockRestore();
});

test("drain keeps its time although the query for silence hangs", async () => {
  const store = memoryStore();
  const { webhooks, deliver, platform } = handlerOf({ store, autoStart: false, silentAfter: HOUR });
  platform.booking("A1", "Confirmed");
  await deliver(notificationOf({ bookingCode: "A1" }));
  // The first claim reads the time of the last notification, too.
  await webhooks.ready();
  vi.spyOn(store, "lastReceivedAt").mockReturnValue(new Promise(() => {}));
  const drained = webhooks.drain({ timeout: 3000 });
  await advance(3000);
  expect(await drained).toEqual({ done: 1, failed: 0 });
});

describe("silentAfter", () => {
  const silences = (observed: readonly { kind: string }[]) =>
    observed.filter(({ kind }) => kind === "silent");

  test("reports the silence once, and again after the next notification", async () => {
    const { deliver, webhooks, observed, logger } = handlerOf({ silentAfter: HOUR });
    webhooks.start();
    await advance(HOUR / 2);
    await deliver(notificationOf());
    await advance(HOUR - 1);
    expect(silences(observed)).toEqual([]);
    await advance(1);
    const lastReceivedAt = new Date(NOW.getTime() + HOUR / 2);
    expect(silences(observed)).toEqual([{ kind: "silent", lastReceivedAt }]);
    expect(logger.lines.at(-1)).toContain("no notification has arrived since 2026-05-01T12:30:00.000Z");
    await advance(24 * HOUR);
    expect(silences(observed)).toHaveLength(1);
    await deliver(notificationOf());
    await advance(2 * HOUR);
    expect(silences(observed)).toHaveLength(2);
    await deliver(notificationOf());
    await webhooks.close();
    await advance(24 * HOUR);
    expect(silences(observed)).toHaveLength(2);
  });

  test("counts from the start if nothing ever arrived, and sees notifications to other processes", async () => {
    const store = memoryStore();
    const { webhooks, observed } = handlerOf({ silentAfter: "1h", store });
    webhooks.start();
    await advance(HOUR - 1);
    expect(silences(observed)).toEqual([]);
    await advance(1);
    expect(silences(observed)).toEqual([{ kind: "silent", lastReceivedAt: undefined }]);
    const other = handlerOf({ autoStart: false, store });
    await other.deliver(notificationOf());
    await advance(HOUR / 2);
    expect(silences(observed)).toHaveLength(1);
  });

  test("without a store, only a notification that was forwarded ends it", async () => {
    const { deliver, webhooks, observed } = handlerOf({
      silentAfter: HOUR,
      store: forwardTo(() => {}) as never,
    });
    const start = async () => void (await webhooks.drain());
    await deliver(notificationOf());
    await start();
    await advance(HOUR - 1);
    expect((await deliver({})).status).toBe(400);
    await advance(1);
    await start();
    expect(silences(observed)).toEqual([{ kind: "silent", lastReceivedAt: NOW }]);
  });

  test("asks again after the store has failed", async () => {
    let broken = true;
    const store = alteredStore(memoryStore(), { lastReceivedAt: failing(() => broken) });
    const { webhooks, observed } = handlerOf({ silentAfter: HOUR, store });
    webhooks.start();
    await advance(1);
    broken = false;
    await advance(2 * HOUR);
    expect(silences(observed)).toHaveLength(1);
  });

  test("is checked by drain if no loop runs", async () => {
    const { webhooks, deliver, observed } = handlerOf({ silentAfter: HOUR, autoStart: false });
    await deliver(notificationOf());
    await webhooks.drain();
    await advance(HOUR);
    expect(silences(observed)).toEqual([]);
    await webhooks.drain();
    await webhooks.drain();
    expect(silences(observed)).toHaveLength(1);
  });

  test.each([undefined, null])("is off if it is %s, and asks the store nothing", async (silentAfter) => {
    const { webhooks, store, observed } = handlerOf({ silentAfter: silentAfter as never });
    await webhooks.ready();
    const asked = vi.spyOn(store, "lastReceivedAt");
    webhooks.start();
    await advance(1_000 * HOUR);
    expect(asked).not.toHaveBeenCalled();
    expect(silences(observed)).toEqual([]);
  });
});
