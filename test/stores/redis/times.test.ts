import { describe, expect, onTestFinished, test } from "vitest";
import { UrlLink } from "../../../src/stores/redis/redis-client.ts";
import { Connection } from "../../../src/stores/redis/redis-connection.ts";
import { RedisStore } from "../../../src/stores/redis/redis-store.ts";
import { CLAIM, DONE, eventOf, RETRY } from "./event.ts";
import { createPrefixes, url } from "./support.ts";

const prefix = createPrefixes();
const HOUR = 3_600_000;

function openAt(time: number) {
  const clock = { now: time };
  const connection = new Connection(new UrlLink(url!), `{${prefix()}}`, 10_000);
  const store = new RedisStore(
    connection,
    () => {},
    () => clock.now,
  );
  onTestFinished(() => store.close());
  return { store, clock };
}

const idsOf = (events: readonly { readonly eventId: string }[]) => events.map(({ eventId }) => eventId);

describe.skipIf(url === undefined)("with a clock that is set back by an hour", () => {
  test("an event without dueIn is still due", async () => {
    const { store, clock } = openAt(10 * HOUR);
    const event = eventOf();
    await store.add(event);
    clock.now -= HOUR;
    expect(await store.nextDue()).toBe(0);
    expect(idsOf(await store.claim(CLAIM))).toEqual([event.eventId]);
  });

  test.each([
    ["dueIn", 1000],
    ["a retry", { ...RETRY, in: 1000 }],
    ["a record's outage", { ...RETRY, counted: false, reason: "unavailable", in: 1000 }],
  ] as const)("the wait of %s ends", async (_, wait) => {
    for (const byId of [false, true]) {
      const { store, clock } = openAt(10 * HOUR);
      const event = eventOf();
      const options = byId ? { ...CLAIM, eventId: event.eventId } : CLAIM;
      if (typeof wait === "number") await store.add(event, { dueIn: wait });
      else {
        await store.add(event);
        const [claim] = await store.claim(CLAIM);
        await store.settle(claim!, wait);
      }
      expect(await store.claim(options)).toEqual([]);
      expect(await store.nextDue()).toBe(1000);
      clock.now += 500;
      expect(await store.claim(options)).toEqual([]);
      clock.now -= HOUR;
      expect(await store.nextDue()).toBe(0);
      expect(await store.oldestWaiting()).toBe(0);
      const claims = await store.claim(options);
      expect(idsOf(claims)).toEqual([event.eventId]);
      await store.settle(claims[0]!, DONE);
      expect(await store.nextDue()).toBeUndefined();
    }
  });

  test("oldestWaiting counts a replayed event", async () => {
    const { store, clock } = openAt(10 * HOUR);
    const event = eventOf();
    await store.add(event);
    const [claim] = await store.claim(CLAIM);
    await store.settle(claim!, DONE);
    await store.replay({ eventId: event.eventId });
    clock.now -= HOUR;
    expect(await store.oldestWaiting()).toBe(0);
    expect(await store.nextDue()).toBe(0);
  });

  test("a wait that began before the new time goes on", async () => {
    const { store, clock } = openAt(10 * HOUR);
    const [early, late] = [eventOf(), eventOf()];
    await store.add(early, { dueIn: 2 * HOUR });
    clock.now += HOUR + 1;
    await store.add(late, { dueIn: 2 * HOUR });
    clock.now -= HOUR;
    // The start of the later wait is now in the future, so the store ends that wait. The earlier wait goes on.
    expect(idsOf(await store.claim(CLAIM))).toEqual([late.eventId]);
    expect(await store.claim(CLAIM)).toEqual([]);
  });

  test("a lease is held until its end", async () => {
    const { store, clock } = openAt(10 * HOUR);
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    clock.now -= HOUR;
    expect(await store.claim(CLAIM)).toEqual([]);
    expect(await store.nextDue()).toBe(HOUR + CLAIM.leaseDuration);
    expect(await store.settle(claim!, DONE)).toBe(true);
  });
});

describe.skipIf(url === undefined)("when many events become due at once", () => {
  test("all events are claimed, of many records and of one record", async () => {
    const { store, clock } = openAt(HOUR);
    const events = Array.from({ length: 900 }, (_, index) => eventOf(`booking:${index < 450 ? index : "A"}`));
    await Promise.all(events.map((event) => store.add(event, { dueIn: 1000 })));
    expect(await store.nextDue()).toBe(1000);
    expect(await store.oldestWaiting()).toBeUndefined();
    clock.now += 1000;
    expect(await store.oldestWaiting()).toBe(1000);
    const done = new Set<string>();
    while ((await store.nextDue()) === 0) {
      const claims = await store.claim(CLAIM);
      expect(claims.length).toBeGreaterThan(0);
      for (const claim of claims) done.add(claim.eventId);
      await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    }
    expect(done.size).toBe(900);
    expect(await store.counts()).toMatchObject({ pending: 0, processing: 0, done: 900 });
  }, 60_000);
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
