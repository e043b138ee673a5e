// Whose async context a callback sees: that of the request that waits for its event, or none.

import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, memoryStore } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { alteredStore, late } from "../queue/support.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf, handlerOf, notificationOf, platformOf } from "./support.ts";

const users = Array.from({ length: 30 }, (_, n) => `user-${n}`);
const als = new AsyncLocalStorage<string>();
afterEach(() => expect(als.getStore()).toBe(undefined));

type Options = Omit<NonNullable<Parameters<typeof handlerOf>[0]>, "on">;

/** Makes a handler whose callback notes the booking and whose context it sees. */
function noting({ work = async () => {}, ...options }: Options & { work?: () => Promise<void> } = {}) {
  const seen = new Map<string, string | undefined>();
  const handler = handlerOf({
    ...options,
    on: {
      fallback: async ({ ref }) => {
        await work();
        seen.set(String(ref).replace("booking:", ""), als.getStore());
      },
    },
  });
  onTestFinished(() => handler.webhooks.close({ timeout: 0 }));
  for (const user of [...users, "first", "early", "late", "cron"])
    handler.platform.booking(user, "Confirmed");
  const notify = (user: string, context?: Parameters<typeof handler.deliver>[1]) =>
    als.run(user, () => handler.deliver(notificationOf({ bookingCode: user }), context));
  return { ...handler, seen, notify };
}

const each = <T>(value: (user: string) => T) => new Map(users.map((user) => [user, value(user)]));

describe("in the background", () => {
  test.each([
    ["made at module level", () => noting()],
    ["made inside a request", () => als.run("maker", () => noting())],
    [
      "started inside a request",
      () => {
        const handler = noting();
        als.run("starter", () => handler.webhooks.start());
        return handler;
      },
    ],
    [
      "on a store that was used inside a request",
      () => {
        const store = memoryStore();
        als.run("user of the store", () => void store.subscribe?.(() => {}));
        return noting({ store });
      },
    ],
    ["with slots that ended attempts free", () => noting({ concurrency: 2, work: () => sleep(1) })],
  ])("no callback sees a request, in a handler that is %s", async (_, make) => {
    const { notify, seen } = make();
    await notify("first");
    await Promise.all(users.map((user) => notify(user)));
    await eventually(() => expect(seen.size).toBe(31));
    expect(new Set(seen.values())).toEqual(new Set([undefined]));
  });

  test("a notification that is the try of a pause at once does not see its request", async () => {
    const { notify, seen, platform, webhooks, kinds } = noting();
    for (const user of users.slice(0, 5)) platform.answer(user, { status: 503 });
    for (const user of users.slice(0, 5)) await notify(user);
    await eventually(() => expect(kinds()).toContain("paused"));
    // A failed try was due after 1 s, and the next one is due after 2 s more.
    await eventually(() => expect(kinds().filter((kind) => kind === "paused").length).toBe(2));
    await sleep(1100);
    await notify("late");
    await eventually(() => expect(seen.has("late")).toBe(true));
    expect(seen.get("late")).toBe(undefined);
    await webhooks.close({ timeout: 0 });
  });

  test("no callback of a retry, a timer or a second look sees a request", async () => {
    const seen: (readonly [kind: string, user: string | undefined])[] = [];
    const { deliver, platform, webhooks } = handlerOf({
      backoff: () => 5,
      recheckAfter: 20,
      on: {
        "booking.Confirmed": async ({ attempt, timers, booking }) => {
          seen.push(["callback", als.getStore()]);
          if (attempt < 3) throw new Error("not yet");
          timers.set("soon", new Date(Date.now() + 5));
          platform.booking(booking.bookingCode, "Cancelled");
        },
        "booking.timer.soon": () => void seen.push(["timer", als.getStore()]),
        "booking.Cancelled": () => void seen.push(["cancelled", als.getStore()]),
      },
    });
    onTestFinished(() => webhooks.close({ timeout: 0 }));
    platform.booking("A", "Confirmed");
    await als.run("first", () => deliver(notificationOf({ bookingCode: "A" })));
    await eventually(() => expect(seen.map(([kind]) => kind)).toContain("cancelled"));
    await eventually(() => expect(seen.map(([kind]) => kind)).toContain("timer"));
    expect(seen.filter(([, user]) => user !== undefined)).toEqual([]);
  });

  test("the store's calls of the loop see none, and an add sees its own", async () => {
    const calls = new Map<string, Set<unknown>>();
    const store = new Proxy(memoryStore(), {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...given: unknown[]) => {
          calls.set(String(name), (calls.get(String(name)) ?? new Set()).add(als.getStore()));
          return value.apply(target, given);
        };
      },
    }) as EventStore;
    const { notify, seen } = noting({ store });
    await Promise.all(users.map((user) => notify(user)));
    await eventually(() => expect(seen.size).toBe(30));
    expect(calls.get("add")).toEqual(new Set(users));
    for (const name of ["claim", "settle"])
      expect([name, calls.get(name)]).toEqual([name, new Set([undefined])]);
  });
});

test("a reconciler that is started inside a request runs no callback in its context", async () => {
  const { notify, seen, webhooks, platform } = noting({ processing: "inline" });
  await notify("early");
  expect(seen).toEqual(new Map([["early", "early"]]));
  platform.booking("early", "Cancelled");
  const reconciler = createReconciler(webhooks, { every: 60_000 });
  onTestFinished(() => reconciler.close());
  als.run("starter", () => reconciler.start());
  await eventually(() => expect(seen).toEqual(new Map([["early", undefined]])));
});

describe("a request that waits", () => {
  const waited: Promise<unknown>[] = [];
  const waitUntil = (promise: Promise<unknown>) => void waited.push(promise);

  test("leaves the loop its own context, although its end frees a slot for a claim that waits", async () => {
    const store = alteredStore(memoryStore(), { claim: late(() => sleep(5)) });
    const [background, inline] = [
      noting({ store, autoStart: false }),
      noting({ store, processing: "inline", work: () => sleep(2) }),
    ];
    await Promise.all(users.map((user) => background.notify(user)));
    for (let n = 0; n < 100; n += 1) inline.platform.booking(`inline-${n}`, "Confirmed");
    inline.webhooks.start();
    await Promise.all(Array.from({ length: 100 }, (_, n) => inline.notify(`inline-${n}`)));
    await eventually(() => expect(users.every((user) => inline.seen.has(user))).toBe(true));
    const others = [...inline.seen].filter(([user]) => user.startsWith("inline-"));
    expect(inline.seen).toEqual(
      new Map([...each(() => undefined), ...others.map(([user]) => [user, user] as const)]),
    );
  });

  test.each([1, 10])(
    "with waitUntil, each callback sees its own request, %d at once",
    async (concurrency) => {
      const { notify, seen } = noting({ concurrency, work: () => sleep(1) });
      await Promise.all(users.map((user) => notify(user, { waitUntil })));
      await Promise.all(waited.splice(0));
      expect(seen).toEqual(each((user) => user));
    },
  );

  test("the events of others that a waitUntil handles see none", async () => {
    const { notify, seen, webhooks } = noting({ autoStart: false });
    await notify("early");
    await notify("late", { waitUntil });
    await Promise.all(waited.splice(0));
    expect(seen).toEqual(
      new Map([
        ["early", undefined],
        ["late", "late"],
      ]),
    );
    await webhooks.drain();
  });

  test("inline, verify, observe, recorded and the callback see their own", async () => {
    const others: [kind: string, user: unknown, saw: unknown][] = [];
    const note = (kind: string, user: unknown) => others.push([kind, user, als.getStore()]);
    const { notify, seen } = noting({
      processing: "inline",
      verify: () => {
        note("verify", als.getStore());
        return true;
      },
      observe: (event) => {
        if ("ref" in event) note(event.kind, String(event.ref).replace("booking:", ""));
      },
      telemetry: {
        recorded: (event) => void note("recorded", String(event.ref).replace("booking:", "")),
        process: (_, run) => run(),
      },
    });
    await Promise.all(users.map((user) => notify(user)));
    expect(seen).toEqual(each((user) => user));
    expect(others.filter(([, user, saw]) => user !== saw)).toEqual([]);
    expect(others.length).toBe(30 * 5);
  });
});

test("a drain in a request runs the callbacks of others in none", async () => {
  const { notify, seen, webhooks } = noting({ autoStart: false });
  await notify("early");
  await als.run("cron", () => webhooks.drain());
  expect(seen).toEqual(new Map([["early", undefined]]));
});

test.each([
  [
    "memory",
    () => memoryStore({ transaction: async (run: (tx: object) => unknown) => void (await run({})) }),
  ],
  ["SQLite", () => sqliteStore(":memory:")],
])("a write of atomically sees the context in which it was passed, on %s", async (_, makeStore) => {
  const store = makeStore() as EventStore<object>;
  onTestFinished(() => store.close());
  const seen = new Map<string, string | undefined>();
  const platform = platformOf();
  for (const user of users) platform.booking(user, "Confirmed");
  const webhooks = createWebhookHandler({
    client: clientOf(platform),
    store,
    verify: false,
    processing: "inline",
    on: {
      "booking.Confirmed": ({ booking, atomically }) =>
        atomically(() => void seen.set(booking.bookingCode, als.getStore())),
    },
  });
  onTestFinished(() => webhooks.close({ timeout: 0 }));
  const notify = (bookingCode: string) =>
    webhooks.receive({ method: "POST", url: "/hooks", headers: {}, body: notificationOf({ bookingCode }) });
  await Promise.all(users.map((user) => als.run(user, () => notify(user))));
  expect(seen).toEqual(each((user) => user));
});
