import { randomUUID } from "node:crypto";
import { memoryStore } from "stayhook";
import type { NewEvent } from "stayhook/store";
import { expect, test } from "vitest";
import { internalsOf } from "../../src/webhooks/internals.ts";
import { alteredStore } from "../queue/support.ts";
import { advance, handlerOf, useFakeTime } from "./support.ts";

useFakeTime();

const reconcileEvent = (): NewEvent => ({
  eventId: randomUUID(),
  ref: "listing:7",
  source: "reconcile",
  topic: null,
  timestamp: "2026-05-01T12:00:00.000Z",
  notification: null,
});

test("an event that the reconciler adds is handled at once, even on a store without notifications", async () => {
  const store = alteredStore(memoryStore(), { subscribe: () => undefined });
  const { webhooks, platform } = handlerOf({ store });
  platform.listing(7, "Hidden");
  webhooks.start();
  await advance(10);
  const event = reconcileEvent();
  expect(await internalsOf(webhooks)!.add(event)).toBe("added");
  await advance(10);
  expect(await store.counts()).toMatchObject({ done: 1 });
  expect(await internalsOf(webhooks)!.add(event)).toBe("duplicate");
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
