import { expect, test } from "vitest";
import { Log } from "../../src/logger.ts";
import { ClaimedAhead } from "../../src/queue/claimed-ahead.ts";
import { Leases } from "../../src/queue/leases.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  advance,
  done,
  eventOf,
  idsOf,
  longWork,
  MINUTE,
  outOfReach,
  queueOf,
  refused,
  SECOND,
  sleep,
  type TestWork,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const CONCURRENCY = 10;
const EVENTS = 1000;
/** How long the store takes to answer a claim, ms. */
const CLAIM = 4;
/** How long a callback takes at first, ms. */
const CALLBACK = 8;

/** Starts a queue whose slots become free while claims are in flight. */
async function busyQueue({ renew, ...policy }: { renew?: EventStore["renew"]; leaseDuration?: number } = {}) {
  let work: TestWork = () => sleep(CALLBACK).then(() => done);
  let [running, most, claiming] = [0, 0, 0];
  const it = queueOf({
    concurrency: CONCURRENCY,
    ...policy,
    alter: {
      claim: (own) => async (options) => {
        claiming += 1;
        const claims = await own(options);
        await sleep(CLAIM);
        claiming -= 1;
        return claims;
      },
      ...(renew && { renew: () => renew }),
    },
    work: async (claim, context) => {
      running += 1;
      most = Math.max(most, running);
      try {
        return await work(claim, context);
      } finally {
        running -= 1;
      }
    },
  });
  await it.add(...idsOf(EVENTS));
  it.queue.start();
  await advance(20 * CLAIM);
  /** Returns the events that are leased, but whose attempts have not begun. */
  const waiting = async (): Promise<string[]> => {
    const leased = await it.store.list({ state: "processing", limit: EVENTS });
    return leased.map(({ eventId }) => eventId).filter((id) => !it.ran.includes(id));
  };
  return {
    ...it,
    most: () => most,
    claiming: () => claiming,
    waiting,
    becomes: (next: TestWork) => {
      work = next;
    },
    /** Goes on until several claims wait for slots and no claim is in flight. */
    untilWaiting: async (): Promise<string[]> => {
      for (let ms = 0; ms < 200; ms += 1) {
        const ids = await waiting();
        if (claiming === 0 && ids.length > 2) return ids;
        await advance(1);
      }
      throw new Error("no claim waits for a slot");
    },
  };
}

test("a free slot does not wait for a claim, and no more attempts run than slots", async () => {
  const { ran, calls, most } = await busyQueue();
  const [ranBefore, claimsBefore] = [ran.length, calls.claim];
  await advance(50 * CALLBACK);
  const handled = ran.length - ranBefore;
  // Each slot runs 50 events in this time. Without claims ahead, it runs 33 at most.
  expect(handled).toBeGreaterThan(0.9 * 50 * CONCURRENCY);
  expect(calls.claim - claimsBefore).toBeLessThan(handled / 4);
  expect(most()).toBe(CONCURRENCY);
});

test("no more claims wait than there are slots", async () => {
  const { waiting, claiming } = await busyQueue();
  let most = 0;
  for (let ms = 0; ms < 200; ms += 1) {
    await advance(1);
    if (claiming() === 0) most = Math.max(most, (await waiting()).length);
  }
  expect(most).toBeGreaterThan(2);
  expect(most).toBeLessThanOrEqual(CONCURRENCY);
});

test("no claim waits if the store answers at once, or if callbacks take long", async () => {
  const { queue, add, store } = queueOf({ concurrency: 2, work: () => sleep(SECOND).then(() => done) });
  await add(...idsOf(20));
  queue.start();
  for (let ms = 0; ms < 5 * SECOND; ms += 100) {
    await advance(100);
    expect((await store.counts()).processing).toBeLessThanOrEqual(2);
  }
});

test("a claim is given back after 250 ms, so that an idle process can handle its event", async () => {
  const { becomes, untilWaiting, store, ran } = await busyQueue();
  becomes(longWork().work);
  // The callbacks that are running end, and long ones take their slots.
  await advance(CALLBACK);
  const ids = await untilWaiting();
  // Longer than 250 ms, so that the loop could claim again.
  await advance(300);
  expect(await store.counts()).toMatchObject({ processing: CONCURRENCY });
  expect(await store.get(ids[0]!)).toMatchObject({ state: "pending", attempts: 0, history: [] });
  const before = ran.length;
  const claim = store.claim({ limit: EVENTS, leaseDuration: MINUTE });
  await advance(CLAIM);
  expect((await claim).map(({ eventId }) => eventId)).toEqual(expect.arrayContaining(ids));
  await advance(MINUTE / 2);
  expect(ran.length).toBe(before);
});

test("a claim that waits behind another one is given back after 250 ms, too", async () => {
  const store = memoryStore();
  for (const id of ["a", "b"]) await store.add(eventOf(id));
  const [a, b] = await store.claim({ limit: 2, leaseDuration: MINUTE });
  const leases = new Leases(store, MINUTE, new Log());
  const givenBack: string[] = [];
  const ahead = new ClaimedAhead(leases, CONCURRENCY, ({ eventId }) => givenBack.push(eventId));
  ahead.add(a!, performance.now() + MINUTE);
  await advance(100);
  ahead.add(b!, performance.now() + MINUTE);
  expect(ahead.take()?.claim).toBe(a);
  await advance(249);
  expect(givenBack).toEqual([]);
  await advance(1);
  expect(givenBack).toEqual(["b"]);
});

test("claims are given back in an outage, and their attempts do not count", async () => {
  const { becomes, untilWaiting, queue, store, ran } = await busyQueue();
  const ids = await untilWaiting();
  becomes(() => outOfReach(MINUTE));
  await advance(2 * CALLBACK);
  expect(queue.state).toBe("paused");
  expect((await store.counts()).processing).toBe(0);
  const others = ids.filter((id) => !ran.includes(id));
  expect(others.length).toBeGreaterThan(0);
  for (const id of others)
    expect(await store.get(id)).toMatchObject({ state: "pending", attempts: 0, history: [] });
});

test("claims are given back when an outage begins, although callbacks go on", async () => {
  const { becomes, untilWaiting, queue, store } = await busyQueue();
  const { work } = longWork();
  let isFirst = true;
  becomes((claim, context) => {
    if (!isFirst) return work(claim, context);
    isFirst = false;
    return sleep(2 * CALLBACK).then(() => outOfReach(MINUTE));
  });
  await advance(CALLBACK);
  await untilWaiting();
  for (let ms = 0; queue.state !== "paused" && ms < 200; ms += 1) await advance(1);
  await advance(CLAIM);
  expect((await store.counts()).processing).toBe(CONCURRENCY - 1);
});

test("claims are given back when reads become limited, so that no more reads begin than the limit allows", async () => {
  const { becomes, untilWaiting, store } = await busyQueue();
  await untilWaiting();
  let [refusals, begunLater] = [0, 0];
  becomes(async () => {
    if (refusals >= 10) begunLater += 1;
    await sleep(CALLBACK);
    refusals += 1;
    return refused;
  });
  // The next read is due 142 ms after the tenth refusal.
  await advance(15 * CALLBACK);
  expect(refusals).toBeGreaterThan(10);
  expect(begunLater).toBe(0);
  expect((await store.counts()).processing).toBe(0);
});

test("close gives waiting claims back at once", async () => {
  const { becomes, untilWaiting, queue, store, ran } = await busyQueue();
  const { work, end } = longWork();
  becomes(work);
  await untilWaiting();
  const closing = queue.close(10 * SECOND);
  await advance(0);
  expect((await store.counts()).processing).toBe(CONCURRENCY);
  const begun = ran.length;
  end();
  await advance(SECOND);
  await closing;
  expect(ran.length).toBe(begun);
  expect(await store.counts()).toMatchObject({ processing: 0, done: begun, pending: EVENTS - begun });
});

test("a claim that arrives after close is given back", async () => {
  const { claiming, queue, store, ran } = await busyQueue();
  for (let ms = 0; claiming() === 0 && ms < 200; ms += 1) await advance(1);
  const closing = queue.close(SECOND);
  expect(claiming()).toBe(1);
  const begun = ran.length;
  await advance(SECOND);
  await closing;
  expect(ran.length).toBe(begun);
  expect(await store.counts()).toMatchObject({ processing: 0, done: begun, pending: EVENTS - begun });
});

test("a claim that arrives in a pause is given back", async () => {
  const { becomes, claiming, queue, store } = await busyQueue();
  becomes(() => sleep(1).then(() => outOfReach(MINUTE)));
  for (let ms = 0; queue.state !== "paused" && ms < 200; ms += 1) await advance(1);
  expect(claiming()).toBe(1);
  await advance(CALLBACK + CLAIM);
  expect((await store.counts()).processing).toBe(0);
});

test("the lease of a waiting claim is renewed, and a claim whose lease is lost gets no attempt", async () => {
  let lost: readonly string[] = [];
  const renewed = new Set<string>();
  const { becomes, untilWaiting, ran } = await busyQueue({
    leaseDuration: 300,
    renew: async (claims) => {
      for (const { eventId } of claims) renewed.add(eventId);
      return claims.filter(({ eventId }) => !lost.includes(eventId));
    },
  });
  becomes(() => sleep(200).then(() => done));
  await advance(CALLBACK);
  const [first, ...others] = await untilWaiting();
  lost = [first!];
  await advance(199);
  expect([...renewed]).toEqual(expect.arrayContaining([first, ...others]));
  await advance(50);
  expect(ran).not.toContain(first);
  expect(ran).toEqual(expect.arrayContaining(others));
});

test("a drain beside the loop handles the events that wait for slots before it ends", async () => {
  const { untilWaiting, queue, store, ran } = await busyQueue();
  await untilWaiting();
  const { done: before } = await store.counts();
  const draining = queue.drain({});
  await advance(MINUTE);
  expect(await draining).toEqual({ done: EVENTS - before, failed: 0 });
  expect(new Set(ran).size).toBe(EVENTS);
  expect(await store.counts()).toMatchObject({ processing: 0, done: EVENTS });
});

test("a drain that is stopped leaves the claims of the loop alone", async () => {
  const { untilWaiting, queue, store, ran } = await busyQueue();
  await untilWaiting();
  const draining = queue.drain({ timeout: 1 });
  await advance(MINUTE);
  await draining;
  expect(new Set(ran).size).toBe(EVENTS);
  expect(await store.counts()).toMatchObject({ processing: 0, done: EVENTS });
});

test("an inline request handles its event although the loop has claimed it", async () => {
  const { untilWaiting, queue, ran } = await busyQueue();
  const ids = await untilWaiting();
  const last = ids.at(-1)!;
  const running = queue.runNow(eventOf(last), performance.now() + SECOND);
  await advance(SECOND);
  await running;
  expect(ran.filter((id) => id === last)).toEqual([last]);
});
