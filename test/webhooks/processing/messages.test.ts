// The messages about a booking: a record of their own, which is never read.

import { createWebhookHandler, memoryStore } from "stayhook";
import { describe, expect, onTestFinished, test } from "vitest";
import { advance, clientOf, MINUTE, notificationOf, platformOf, useFakeTime } from "../support.ts";

useFakeTime();

interface Told {
  readonly text: unknown;
  readonly ref: string | null;
}

/** Makes a handler whose callback of messages takes a second, and fails for the text `fail`. */
function appOf({ accounts = false, autoStart = true } = {}) {
  const platform = platformOf();
  const store = memoryStore();
  const told: Told[] = [];
  const others: string[] = [];
  let [running, most] = [0, 0];
  const webhooks = createWebhookHandler({
    client: clientOf(platform, accounts ? { accessToken: ({ account }) => `token-of-${account}` } : {}),
    store,
    verify: false,
    logger: () => {},
    ...(accounts && { accountFrom: { query: "account" } }),
    autoStart,
    on: {
      message: async ({ ref, notification }) => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, 1000));
        running -= 1;
        const text = notification && (notification as { text?: unknown }).text;
        if (text === "fail") throw new Error("no");
        told.push({ text, ref });
      },
      fallback: ({ ref }) => void others.push(String(ref)),
    },
  });
  onTestFinished(() => webhooks.close({ timeout: 0 }));
  const send = async (topic: string, fields: Parameters<typeof notificationOf>[0], account = "a17") => {
    const body = notificationOf(fields);
    const url = `/?topic=${topic}${accounts ? `&account=${account}` : ""}`;
    expect((await webhooks.receive({ method: "POST", url, headers: {}, body })).status).toBe(200);
    return body.eventId;
  };
  return {
    ...{ platform, store, webhooks, told, others, send },
    message: (bookingCode: string, text: string, account?: string) =>
      send("messages", { bookingCode, text }, account),
    texts: () => told.map(({ text }) => text),
    most: () => most,
  };
}

/** Lets bookings pause: their reads fail until the test ends. */
async function pauseBookings({ platform, send, webhooks }: ReturnType<typeof appOf>, accounts = ["a17"]) {
  platform.answer("*", { status: 503 });
  for (const bookingCode of ["P1", "P2", "P3", "P4", "P5", "P6"])
    for (const account of accounts) await send("bookings", { bookingCode }, account);
  await advance(MINUTE);
  const health = await webhooks.health();
  return "pauseScope" in health ? health.pauseScope : undefined;
}

describe("messages about one booking", () => {
  test("run one at a time in the order of their arrival, beside those about others", async () => {
    const app = appOf();
    for (const text of ["1", "2", "3", "4"]) await app.message("HX3K9", text);
    await app.message("OTHER", "other");
    await advance(1500);
    expect(app.texts()).toEqual(["1", "other"]);
    await advance(4000);
    expect(app.texts()).toEqual(["1", "other", "2", "3", "4"]);
    expect(app.most()).toBe(2);
    expect(app.platform.reads).toEqual([]);
    const events = await app.store.list({ ref: "message:HX3K9", limit: 10 });
    expect(events.map(({ state, type, notification }) => ({ state, type, notification }))).toEqual(
      Array(4).fill({ state: "done", type: "message", notification: null }),
    );
  });

  test("that fail wait by themselves: the later ones go on", async () => {
    const app = appOf();
    const failing = await app.message("HX3K9", "fail");
    for (const text of ["2", "3"]) await app.message("HX3K9", text);
    await advance(3500);
    expect(app.texts()).toEqual(["2", "3"]);
    expect(await app.store.get(failing)).toMatchObject({
      state: "retrying",
      attempts: 1,
      reason: "callback",
    });
    expect((await app.store.get(failing))?.notification).toContain("fail");
    expect(await app.store.discard({ eventId: failing })).toBe(1);
    expect((await app.store.get(failing))?.notification).toBeNull();
  });

  test("keep their order in a drain", async () => {
    const app = appOf({ autoStart: false });
    for (const text of ["1", "2", "3"]) await app.message("HX3K9", text);
    const drained = app.webhooks.drain();
    await advance(MINUTE);
    expect(await drained).toEqual({ done: 3, failed: 0 });
    expect(app.texts()).toEqual(["1", "2", "3"]);
  });

  test("come before the booking is known, which does not hold them up, and are not read", async () => {
    const app = appOf();
    app.platform.answer("HX3K9", { status: 404 });
    const booking = await app.send("bookings", { bookingCode: "HX3K9" });
    await app.message("HX3K9", "1");
    await advance(2000);
    expect(app.texts()).toEqual(["1"]);
    expect(await app.store.get(booking)).toMatchObject({ state: "retrying", ref: "booking:HX3K9" });
    expect(await app.store.snapshotOf("message:HX3K9")).toBeUndefined();
  });

  test("belong to the spelling of the code, and those without a code are records of their own", async () => {
    const app = appOf();
    await app.message("HX3K9", "upper");
    await app.message("hx3k9", "lower");
    await app.send("messages", { text: "none" });
    await advance(1500);
    expect(app.told).toEqual([
      { text: "upper", ref: "message:HX3K9" },
      { text: "lower", ref: "message:hx3k9" },
      { text: "none", ref: null },
    ]);
  });
});

describe("messages pass", () => {
  test("a pause of the bookings", async () => {
    const app = appOf();
    expect(await pauseBookings(app)).toBe("bookings");
    for (const text of ["1", "2"]) await app.message("P1", text);
    await advance(3000);
    expect(app.texts()).toEqual(["1", "2"]);
  });

  test("a pause of everything with accounts, in their order", async () => {
    const app = appOf({ accounts: true });
    expect(await pauseBookings(app, ["a17", "b2"])).toBe("everything");
    for (const text of ["1", "2", "3"]) await app.message("P1", text);
    await advance(MINUTE);
    expect(app.texts()).toEqual(["1", "2", "3"]);
    expect(app.told[0]?.ref).toBe("a17/message:P1");
  });

  test("a flood of notifications for bookings that do not exist", async () => {
    const app = appOf();
    app.platform.answer("*", { status: 404 });
    for (let n = 0; n < 60; n += 1) await app.send("bookings", { bookingCode: `FORGED${n}` });
    for (const text of ["1", "2"]) await app.message("FORGED1", text);
    await advance(5000);
    expect(app.texts()).toEqual(["1", "2"]);
  });
});
