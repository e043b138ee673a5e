// A subscriber's tests fake timers. Nothing may hang, whatever they fake.

import { setImmediate as realTurn } from "node:timers/promises";
import { memoryStore } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { afterEach, expect, test, vi } from "vitest";
import { clientOf, handlerOf, notificationOf } from "./support.ts";

afterEach(() => void vi.useRealTimers());

/** What Jest's `useFakeTimers()` fakes, but `nextTick`, which this pool of vitest cannot fake: heavy tests do. */
const all = [
  ...([
    "setTimeout",
    "clearTimeout",
    "setInterval",
    "clearInterval",
    "setImmediate",
    "clearImmediate",
  ] as const),
  ...(["queueMicrotask", "Date", "performance"] as const),
];

/** Answers without a web stream: those of Node itself never end while `queueMicrotask` is faked. */
const client = () =>
  clientOf({
    fetch: async () => {
      const body = JSON.stringify({ bookingCode: "A", status: "Confirmed" });
      const answer = { status: 200, ok: true, headers: new Headers(), body: null, text: async () => body };
      return answer as unknown as Response;
    },
  });

test.each([
  ["memory", () => memoryStore() as EventStore],
  ["SQLite", () => sqliteStore(":memory:") as EventStore],
])("with all timers faked, receive, drain and close end, on %s", async (_, makeStore) => {
  vi.useFakeTimers({ toFake: all });
  const store = makeStore();
  const { webhooks } = handlerOf({ store, autoStart: false, clientOf: client });
  for (let n = 0; n < 2; n += 1) {
    const body = JSON.stringify(notificationOf({ bookingCode: "A" }));
    const { status } = await webhooks.receive({ method: "POST", url: "/hooks", headers: {}, body });
    expect(status).toBe(200);
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
  }
  await webhooks.close();
  await store.close();
});

test("with all timers faked, a body of many chunks is read", async () => {
  vi.useFakeTimers({ toFake: all });
  const { webhooks } = handlerOf({ autoStart: false });
  const chunks = async function* () {
    for (let n = 0; n < 2_500; n += 1) yield new TextEncoder().encode(" ");
    yield new TextEncoder().encode(JSON.stringify(notificationOf()));
  };
  const given = { method: "POST", url: "/hooks", headers: {}, body: chunks() };
  expect((await webhooks.receive(given)).status).toBe(200);
});

test("a retry runs when its timer rings, although the monotonic clock stands still, as with node:test", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  let calls = 0;
  const { webhooks, deliver, platform, store } = handlerOf({
    backoff: () => 5000,
    on: {
      fallback: () => {
        calls += 1;
        if (calls === 1) throw new Error("once");
      },
    },
  });
  platform.booking("A", "Confirmed");
  const turns = async () => {
    for (let n = 0; n < 20; n += 1) await realTurn();
  };
  await deliver(notificationOf({ bookingCode: "A" }));
  await turns();
  expect(calls).toBe(1);
  for (let n = 0; n < 12; n += 1) {
    vi.advanceTimersByTime(500);
    await turns();
  }
  expect(calls).toBe(2);
  await webhooks.close();
  await store.close();
});
