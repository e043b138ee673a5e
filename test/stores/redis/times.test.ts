import { describe, expect, onTestFinished, test } from "vitest";
import { Connection } from "../../../src/stores/redis/redis-connection.ts";
import { RedisStore } from "../../../src/stores/redis/redis-store.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createPrefixes, url } from "./support.ts";

const prefix = createPrefixes();
const HOUR = 3_600_000;

function openAt(time: number) {
  const clock = { now: time };
  const connection = new Connection(url!, `{${prefix()}}`, 10_000);
  const store = new RedisStore(connection, { now: () => clock.now });
  onTestFinished(() => store.close());
  return { store, clock };
}

describe.skipIf(url === undefined)("when many events become due at once", () => {
  test("all events are claimed, of many records and of one record", async () => {
    const { store, clock } = openAt(HOUR);
    const events = Array.from({ length: 900 }, (_, index) => eventOf(`booking:${index < 450 ? index : "A"}`));
    await Promise.all(events.map((event) => store.add(event, { dueIn: 1000 })));
    expect(await store.nextDue()).toBe(1000);
    expect(await store.oldestWaiting()).toBeUndefined();
    clock.now += 1000;
    expect(await store.oldestWaiting()).toBe(0);
    const done = new Set<string>();
    while ((await store.nextDue()) === 0) {
      const claims = await store.claim(CLAIM);
      expect(claims.length).toBeGreaterThan(0);
      for (const claim of claims) done.add(claim.eventId);
      await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    }
    expect(done.size).toBe(900);
    expect(await store.counts()).toMatchObject({ pending: 0, processing: 0, done: 900 });
  });
});

test.skipIf(url === undefined)(
  "discard and replay change each event once, although the events change their state meanwhile",
  async () => {
    const { store } = openAt(HOUR);
    await Promise.all(Array.from({ length: 500 }, () => store.add(eventOf(null))));
    expect(await store.discard({ state: "pending" })).toBe(500);
    expect(await store.replay({ reason: "discarded" })).toBe(500);
    expect(await store.discard({ source: "webhook", type: "none" })).toBe(0);
    expect((await store.list({ limit: 700, source: "webhook", state: "pending" })).length).toBe(500);
  },
);
