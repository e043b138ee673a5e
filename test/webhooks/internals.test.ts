import { randomUUID } from "node:crypto";
import { memoryStore } from "stayhook";
import type { NewEvent } from "stayhook/store";
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../src/webhooks/internals.ts";
import { alteredStore } from "../queue/support.ts";
import { handlerOf } from "./support.ts";

const reconcileEvent = (fields: Partial<NewEvent> = {}): NewEvent => ({
  eventId: randomUUID(),
  ref: "listing:7",
  source: "reconcile",
  topic: null,
  timestamp: "2026-05-01T12:00:00.000Z",
  notification: null,
  ...fields,
});

test("an event of the reconciler runs the callback once if there is a change, with its source", async () => {
  const fallback = vi.fn();
  const { webhooks, platform, store } = handlerOf({ autoStart: false, on: { fallback } });
  platform.listing(7, "Hidden");
  for (const _ of [1, 2]) await store.add(reconcileEvent());
  expect(await webhooks.drain()).toEqual({ done: 2, failed: 0 });
  expect(fallback).toHaveBeenCalledTimes(1);
  const [event] = fallback.mock.calls[0]!;
  expect(event).toMatchObject({
    type: "listing.Hidden",
    source: "reconcile",
    changed: true,
    notification: undefined,
    timestamp: new Date("2026-05-01T12:00:00Z"),
  });
  expect(event).not.toHaveProperty("topic");
});

test("an event that the reconciler adds is handled even on a store without notifications", async () => {
  const silent = alteredStore(memoryStore(), { subscribe: () => undefined });
  const { webhooks, platform, store } = handlerOf({ store: silent });
  platform.listing(7, "Hidden");
  webhooks.start();
  await vi.waitFor(async () => expect((await webhooks.health()).state).toBe("running"));
  const startedAt = performance.now();
  const event = reconcileEvent();
  expect(await internalsOf(webhooks)!.add(event)).toBe("added");
  await vi.waitFor(async () => expect(await store.counts()).toMatchObject({ done: 1 }), { interval: 5 });
  // The loop also polls a store without notifications once a second, so allow less than that.
  expect(performance.now() - startedAt).toBeLessThan(500);
  expect(await internalsOf(webhooks)!.add(event)).toBe("duplicate");
  await webhooks.close();
});

test("the internals are not enumerable, and start nothing that the user has switched off", async () => {
  const { webhooks, store } = handlerOf({ autoStart: false });
  expect(Reflect.ownKeys({ ...webhooks }).filter((key) => typeof key === "symbol")).toEqual([
    Symbol.asyncDispose,
  ]);
  const internals = internalsOf(webhooks)!;
  await store.add(reconcileEvent());
  internals.start();
  await internals.drainIfStarted();
  expect((await webhooks.health()).state).toBe("idle");
  expect(await store.counts()).toMatchObject({ pending: 1 });

  const inline = handlerOf({ processing: "inline" });
  inline.platform.listing(7, "Hidden");
  await inline.store.add(reconcileEvent());
  internalsOf(inline.webhooks)!.start();
  expect((await inline.webhooks.health()).state).toBe("idle");
  await internalsOf(inline.webhooks)!.drainIfStarted();
  expect(await inline.store.counts()).toMatchObject({ pending: 0, done: 1 });
  expect(internalsOf({})).toBeUndefined();
  expect(internalsOf(null)).toBeUndefined();
});
