import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import type { Addition, Settlement } from "../../src/stores/outcomes.ts";
import type { ClaimCall } from "../../src/stores/store-steps.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import { CLAIM, DONE, eventOf, RETRY, storedEvent } from "./event.ts";

/** Notes the size of each group, and fails groups that contain an event of the record `booking:bad`. */
class GroupingStore extends MemoryStore {
  readonly groups: number[] = [];
  #isGone = false;

  override async doClose() {
    this.#isGone = true;
  }

  override async doAdd(additions: readonly Addition[]) {
    if (this.#isGone) throw new Error("the connections are gone");
    this.groups.push(additions.length);
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (additions.some(({ event }) => event.ref === "booking:bad")) throw new Error("bad event");
    return super.doAdd(additions);
  }

  override async doSettle(settlements: readonly Settlement<never>[]) {
    this.groups.push(settlements.length);
    return super.doSettle(settlements);
  }

  override async doRenew(claims: readonly ClaimedEvent[], duration: number) {
    this.groups.push(claims.length);
    return super.doRenew(claims, duration);
  }
}

/** Holds a statement that adds an event of the record `booking:locked`, until `unlock`. */
class LockedStore extends MemoryStore {
  readonly #lock = Promise.withResolvers<void>();
  readonly unlock = this.#lock.resolve;

  override async doAdd(additions: readonly Addition[]) {
    if (additions.some(({ event }) => event.ref === "booking:locked")) await this.#lock.promise;
    return super.doAdd(additions);
  }
}

describe("calls at once", () => {
  const refs = Array.from({ length: 50 }, (_, index) => `booking:${index}`);

  test("share a statement, and those that come meanwhile share the next one", async () => {
    const store = new GroupingStore();
    const first = refs.map((ref) => store.add(eventOf(ref)));
    await new Promise((resolve) => setTimeout(resolve, 1));
    const second = refs.map((ref) => store.add(eventOf(ref)));
    await Promise.all([...first, ...second]);
    expect(store.groups.splice(0)).toEqual([50, 50]);
    const claims = await store.claim(CLAIM);
    await store.renew(claims, 1000);
    await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    expect(store.groups).toEqual([50, 50]);
  });

  test("renew many leases 200 a statement", async () => {
    const store = new GroupingStore();
    await Promise.all(Array.from({ length: 250 }, (_, n) => store.add(eventOf(`booking:${n}`))));
    const claims = await store.claim({ ...CLAIM, limit: 250 });
    store.groups.length = 0;
    expect(await store.renew(claims, 1000)).toEqual(claims);
    expect(store.groups).toEqual([200, 50]);
  });

  test("do not wait for a statement that hangs, for example at a lock", async () => {
    const store = new LockedStore();
    const hanging = store.add(eventOf("booking:locked"));
    await new Promise((resolve) => setTimeout(resolve, 1));
    const others = refs.map((ref) => store.add(eventOf(ref)));
    expect(new Set(await Promise.all(others))).toEqual(new Set(["added"]));
    const closing = store.close();
    store.unlock();
    expect(await hanging).toBe("added");
    await closing;
  });

  test("that do not fit into a statement do not wait for it if it hangs", async () => {
    const store = new LockedStore();
    const hanging = store.add(eventOf("booking:locked"));
    const others = Array.from({ length: 250 }, (_, index) => store.add(eventOf(`booking:${index}`)));
    expect(await others.at(-1)).toBe("added");
    store.unlock();
    expect(new Set(await Promise.all([hanging, ...others]))).toEqual(new Set(["added"]));
  });

  test("with one id do not share a statement", async () => {
    const store = new GroupingStore();
    const event = eventOf();
    expect(await Promise.all([store.add(event), store.add(event)])).toEqual(["added", "duplicate"]);
    expect(store.groups).toEqual([1, 1]);
  });

  test("are tried again one by one if their statement fails", async () => {
    const store = new GroupingStore();
    const answers = await Promise.allSettled(
      ["booking:A", "booking:bad", "booking:B"].map((ref) => store.add(eventOf(ref))),
    );
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(store.groups).toEqual([3, 1, 1, 1]);
  });

  test("wake subscribers if an add fails, because only its answer may have been lost", async () => {
    const store = new GroupingStore();
    const woken = vi.fn();
    store.subscribe(woken);
    await expect(store.add(eventOf("booking:bad"))).rejects.toThrow("bad event");
    expect(woken).toHaveBeenCalledTimes(1);
  });

  test("end before close, and wake subscribers once", async () => {
    const store = new GroupingStore();
    const woken = vi.fn();
    store.subscribe(woken);
    await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
    expect(woken).toHaveBeenCalledTimes(1);
    const added = store.add(eventOf());
    await store.close();
    expect(await added).toBe("added");
  });
});

describe("a clock that is set back", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const HOUR = 3_600_000;
  const setBack = (ms: number) => vi.setSystemTime(Date.now() - ms);

  /** Makes a store with an event of each kind, none of which is due. */
  async function waiting(): Promise<EventStore> {
    const store = new MemoryStore();
    await store.add(eventOf("booking:leased", "leased"));
    await store.claim({ limit: 1, leaseDuration: 60_000 });
    await store.add(eventOf("booking:retry", "retry"));
    await store.settle((await store.claim(CLAIM))[0]!, { ...RETRY, in: HOUR });
    await store.add(eventOf("booking:out", "behind"));
    await store.add(eventOf("booking:out", "out"));
    await store.settle((await store.claim(CLAIM))[0]!, {
      ...RETRY,
      in: HOUR,
      count: "nothing",
      holdsRecord: true,
    });
    await store.add({ ...eventOf("booking:recheck", "recheck"), source: "recheck" }, { dueIn: HOUR });
    await store.add({ ...eventOf("booking:timer", "timer"), source: "timer" }, { dueIn: HOUR });
    expect(await store.claim(CLAIM)).toEqual([]);
    return store;
  }

  test.each(["claim", "nextDue"] as const)(
    "is seen by %s: what waits is due now, timers keep their time",
    async (by) => {
      const store = await waiting();
      const timer = (await store.get("timer"))!.dueAt;
      setBack(10_000);
      if (by === "nextDue") expect(await store.nextDue()).toBe(0);
      const claimed = (await store.claim(CLAIM)).map(({ eventId }) => eventId);
      expect(claimed.sort()).toEqual(["behind", "recheck", "retry"]);
      expect((await store.get("timer"))!.dueAt).toEqual(timer);
    },
  );

  test("ends no lease later than its duration from now", async () => {
    const store = await waiting();
    setBack(HOUR);
    await store.claim(CLAIM);
    expect((await store.get("leased"))!.dueAt).toEqual(new Date(Date.now() + 60_000));
    vi.advanceTimersByTime(60_000);
    expect(await store.claim({ ...CLAIM, eventId: "leased" })).toMatchObject([{ attempts: 2 }]);
  });

  test("counts only from more than 1 s on, by the monotonic clock", async () => {
    const store = await waiting();
    setBack(1000);
    expect(await store.claim(CLAIM)).toEqual([]);
    // An hour passes by the monotonic clock, and half a minute less by the store's clock.
    vi.advanceTimersByTime(HOUR / 2);
    setBack(30_000);
    expect(await store.claim({ ...CLAIM, eventId: "retry" })).toHaveLength(1);
  });

  test("is not inferred from an answer that takes long", async () => {
    class SlowStore extends MemoryStore {
      override async doNextDue() {
        const answer = await super.doNextDue({});
        await new Promise((resolve) => setTimeout(resolve, 5000));
        return answer;
      }
    }
    const store = new SlowStore();
    await store.add(eventOf());
    await store.settle((await store.claim(CLAIM))[0]!, { ...RETRY, in: HOUR });
    const next = store.nextDue();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await next).toBe(HOUR);
    expect(await store.claim(CLAIM)).toEqual([]);
  });

  test.each(["webhook", "reconcile"] as const)(
    "is seen by the first call if it is behind the newest receivedAt of a %s",
    async (source) => {
      const store = new MemoryStore();
      const retrying = { state: "retrying", attempts: 1, reason: "callback" } as const;
      const dueAt = new Date(Date.now() + HOUR);
      await store.restore({
        events: [storedEvent({ eventId: "1", source, ...retrying, dueAt })],
        snapshots: [],
      });
      setBack(10_000);
      expect(await store.claim(CLAIM)).toMatchObject([{ eventId: "1" }]);
    },
  );
});

test("get says what is wrong with an id that is no string", async () => {
  await expect(new MemoryStore().get(undefined as never)).rejects.toThrow("eventId: must be a string");
});

describe("if the store fails while it reads or repairs its clock", () => {
  class FailingStore extends MemoryStore {
    isBroken = true;

    override async doLastReceivedAt() {
      if (this.isBroken) throw new Error("the connection was lost");
      return super.doLastReceivedAt();
    }

    override async doSetBack() {
      if (this.isBroken) throw new Error("the connection was lost");
      return super.doSetBack();
    }
  }
  afterEach(() => {
    vi.useRealTimers();
  });

  test("the first claim rejects, and leases nothing", async () => {
    const store = new FailingStore();
    await store.add(eventOf());
    await expect(store.claim(CLAIM)).rejects.toThrow("the connection was lost");
    store.isBroken = false;
    expect(await store.claim(CLAIM)).toHaveLength(1);
  });

  test("after a claim, the events reach the caller", async () => {
    vi.useFakeTimers();
    const store = new FailingStore();
    store.isBroken = false;
    await store.nextDue();
    vi.setSystemTime(Date.now() - 10_000);
    await store.add(eventOf());
    store.isBroken = true;
    expect(await store.claim(CLAIM)).toHaveLength(1);
    await expect(store.claim(CLAIM)).rejects.toThrow("the connection was lost");
  });

  test("the next call repairs the times", async () => {
    vi.useFakeTimers();
    const store = new FailingStore();
    store.isBroken = false;
    await store.add(eventOf("booking:retry", "retry"));
    await store.settle((await store.claim(CLAIM))[0]!, { ...RETRY, in: 60_000 });
    vi.setSystemTime(Date.now() - 10_000);
    store.isBroken = true;
    await expect(store.claim(CLAIM)).rejects.toThrow("the connection was lost");
    store.isBroken = false;
    expect(await store.claim(CLAIM)).toMatchObject([{ eventId: "retry" }]);
  });
});

test("an event that another process adds before the first answer arrives does not set the clock back", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  class SlowStore extends MemoryStore {
    override async doClaim(call: ClaimCall) {
      const answer = await super.doClaim(call);
      await vi.advanceTimersByTimeAsync(2000);
      await this.add(eventOf("booking:new", "new"));
      return answer;
    }
  }
  const store = new SlowStore();
  const retrying = { state: "retrying", attempts: 1, reason: "callback" } as const;
  const dueAt = new Date(Date.now() + 60_000);
  await store.restore({ events: [storedEvent({ eventId: "waits", ...retrying, dueAt })], snapshots: [] });
  expect(await store.claim(CLAIM)).toEqual([]);
  expect(await store.get("waits")).toMatchObject({ dueAt });
});

test("calls that look at the clock at once repair the times once", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  let repairs = 0;
  class SlowStore extends MemoryStore {
    override async doNextDue() {
      const answer = await super.doNextDue({});
      await new Promise((resolve) => setTimeout(resolve, 2000));
      return answer;
    }

    override async doSetBack() {
      repairs += 1;
      return super.doSetBack();
    }
  }
  const store = new SlowStore();
  await store.add(eventOf());
  vi.setSystemTime(Date.now() - 10_000);
  const slow = store.nextDue();
  await store.claim(CLAIM);
  await vi.advanceTimersByTimeAsync(5000);
  await slow;
  expect(repairs).toBe(1);
});

describe("a claim whose answer was lost", () => {
  class LosingStore extends MemoryStore {
    /** Runs between a claim and its answer. If it rejects, the answer is lost. */
    answer = async (_eventId?: string): Promise<void> => {};
    /** Runs before each attempt is ended. */
    ending = async (): Promise<void> => {};

    override async doClaim(call: ClaimCall) {
      const answer = await super.doClaim(call);
      call.claimed = answer.result.claimed;
      await this.answer(call.eventId);
      return answer;
    }

    override async doSettle(settlements: readonly Settlement<never>[]) {
      await this.ending();
      return super.doSettle(settlements);
    }
  }
  const works = async () => {};
  const fails = (message: string) => () => Promise.reject(new Error(message));

  /** Makes a store that has lost the answer to the claim of the event "a". */
  async function lost() {
    const store = new LosingStore();
    await store.add(eventOf("booking:A", "a"));
    store.answer = fails("answer lost");
    await expect(store.claim(CLAIM)).rejects.toThrow("answer lost");
    store.answer = works;
    return store;
  }

  test("is given back by nextDue, so that its event is due now", async () => {
    const store = await lost();
    expect(await store.nextDue()).toBe(0);
  });

  test("is given back by a later call if the first call fails to do so, and does not count", async () => {
    const store = await lost();
    store.ending = fails("the store is down");
    await expect(store.claim(CLAIM)).rejects.toThrow("the store is down");
    store.ending = works;
    expect(await store.claim(CLAIM)).toMatchObject([{ eventId: "a", attempts: 1 }]);
  });

  test("is given back if it was lost while another one was given back", async () => {
    const store = new LosingStore();
    for (const id of ["a", "b"]) await store.add(eventOf(`booking:${id}`, id));
    const answers = { a: Promise.withResolvers<void>(), b: Promise.withResolvers<void>() };
    store.answer = (eventId) => answers[eventId as "a" | "b"].promise;
    const [a, b] = ["a", "b"].map((eventId) => store.claim({ ...CLAIM, eventId }));
    answers.a.reject(new Error("answer lost"));
    await expect(a).rejects.toThrow("answer lost");
    store.ending = async () => {
      answers.b.reject(new Error("answer lost"));
      await expect(b).rejects.toThrow("answer lost");
    };
    await store.nextDue();
    store.answer = works;
    store.ending = works;
    const claimed = (await store.claim(CLAIM)).map(({ eventId }) => eventId);
    expect(claimed.sort()).toEqual(["a", "b"]);
  });
});

test("a settle that is repeated after an error keeps the worker in the history", async () => {
  let isBroken = true;
  class FailingStore extends MemoryStore {
    override async doSettle(settlements: readonly Settlement<never>[]) {
      if (isBroken) throw new Error("the store is down");
      return super.doSettle(settlements);
    }
  }
  const store = new FailingStore();
  await store.add(eventOf("booking:A", "a"));
  const [claim] = await store.claim({ ...CLAIM, worker: "web-1:4711" });
  await expect(store.settle(claim!, DONE)).rejects.toThrow("the store is down");
  isBroken = false;
  expect(await store.settle(claim!, DONE)).toBe(true);
  expect((await store.get("a"))?.history).toMatchObject([{ outcome: "done", worker: "web-1:4711" }]);
});

test("an outcome with two events of one id records the last of them", async () => {
  const store = new MemoryStore();
  await store.add(eventOf());
  const [claim] = await store.claim(CLAIM);
  const event = eventOf("booking:B", "twice");
  const events = [{ event }, { event, dueIn: 1000 }];
  await store.settle(claim!, { ...DONE, events });
  expect(await store.get("twice")).toMatchObject({ state: "scheduled" });
});

test.each(["HX3K9", "a17/HX3K9", "booking:", ""])(
  "erase and remove refuse %j, which names no record",
  async (ref) => {
    const store = new MemoryStore();
    await store.add(eventOf("booking:HX3K9"));
    await expect(store.erase(ref)).rejects.toThrow(
      /^ref: must be the ref of a record, such as booking:HX3K9/,
    );
    await expect(store.remove(ref, "timers")).rejects.toThrow("ref: must be");
    expect(await store.erase("booking:HX3K9")).toBe(1);
  },
);
