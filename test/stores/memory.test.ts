import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { storeContract } from "../../src/stores/contract/store-contract.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { eventually } from "../support/eventually.ts";
import { lazyQuery } from "../support/lazy-query.ts";
import { CLAIM, DONE, eventOf, RETRY, storedEvent } from "./event.ts";

describe.each([
  ["memoryStore", () => memoryStore() as EventStore<unknown>],
  ["sqliteStore in memory", () => sqliteStore(":memory:") as EventStore<unknown>],
])("the contract of %s", (_, create) => {
  for (const { name, run } of storeContract(create)) test.concurrent(name, run);
});

const event = (eventId: string, ref: string | null = null) => eventOf(ref, eventId);
const WAIT = { ...RETRY, in: 5000, reason: "unavailable" } as const;

describe("transaction", () => {
  test("runs the writes of an event, in order, and rolls back if one throws", async () => {
    const calendar: string[] = [];
    const transaction = async (run: (tx: string[]) => void | Promise<void>) => {
      const before = [...calendar];
      try {
        await run(calendar);
      } catch (error) {
        calendar.splice(0, calendar.length, ...before);
        throw error;
      }
    };
    const store = memoryStore({ transaction });
    expect(store.transactional).toBe(true);
    await store.add(event("1"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
    const night = (name: string) => async (tx: string[]) => void tx.push(name);
    const own = new Error("the callback's own");
    const fail = () => {
      throw own;
    };
    await expect(store.settle(claim!, { ...DONE, writes: [night("a"), fail] })).rejects.toBe(own);
    expect(calendar).toEqual([]);
    expect(await store.settle(claim!, { ...DONE, writes: [night("a"), night("b")] })).toBe(true);
    expect(await store.settle(claim!, { ...DONE, writes: [night("c")] })).toBe(true);
    expect(calendar).toEqual(["a", "b"]);
  });

  test.each(["succeeds", "fails"])("lets no claim take the event until a commit %s", async (end) => {
    const calendar: string[] = [];
    const transaction = async (run: (tx: string[]) => void | Promise<void>) => {
      const notes: string[] = [];
      await run(notes);
      await eventually(() => expect(Date.now()).toBeGreaterThan(claim!.claimedAt + 20));
      expect(await store.renew([claim!], 1)).toEqual([claim]);
      const renewedAt = Date.now();
      await eventually(() => expect(Date.now()).toBeGreaterThan(renewedAt + 20));
      expect(await store.nextDue()).toBeUndefined();
      expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
      expect(await store.remove("booking:A", ["1"])).toBe(0);
      const moved = { ...event("1", "booking:A"), timestamp: "moved" };
      expect(await store.add(moved, { replace: "moved" })).toBe("busy");
      if (end === "fails") throw new Error("the commit failed");
      calendar.push(...notes);
    };
    const store = memoryStore({ transaction });
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 10 });
    const settled = store.settle(claim!, { ...DONE, writes: [(tx) => void tx.push("night")] });
    if (end === "fails") await expect(settled).rejects.toThrow("the commit failed");
    else expect(await settled).toBe(true);
    expect(calendar).toEqual(end === "fails" ? [] : ["night"]);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toHaveLength(end === "fails" ? 1 : 0);
  });

  test("awaits a lazy query, which is no promise, before the transaction commits", async () => {
    const calendar: string[] = [];
    const store = memoryStore<string[]>({
      transaction: async (run) => {
        const notes: string[] = [];
        await run(notes);
        calendar.push(...notes);
      },
    });
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim(CLAIM);
    const night = (tx: string[], name: string) => lazyQuery(() => tx.push(name));
    const writes = ["first", "second"].map((name) => (tx: string[]) => night(tx, name));
    expect(await store.settle(claim!, { ...DONE, writes })).toBe(true);
    expect(calendar).toEqual(["first", "second"]);
  });

  test("rolls back if the lease was lost while the writes ran", async () => {
    const rolledBack = vi.fn();
    const transaction = async (run: (tx: string) => void | Promise<void>) => {
      await Promise.resolve(run("tx")).catch((error) => {
        rolledBack();
        throw error;
      });
    };
    const store = memoryStore({ transaction });
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 1 });
    const takeOver = async () => {
      await eventually(async () =>
        expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toHaveLength(1),
      );
    };
    expect(await store.settle(claim!, { ...DONE, writes: [takeOver] })).toBe(false);
    expect(rolledBack).toHaveBeenCalledTimes(1);
    expect(await store.snapshotOf("booking:A")).toBeUndefined();
  });

  test("that is no function is rejected, and so is an unknown option", () => {
    expect(() => memoryStore({ transaction: "yes" as never })).toThrow("transaction: must be a function");
    expect(() => memoryStore({ max: 5 } as never)).toThrow(InvalidArgumentError);
    expect("transactional" in memoryStore()).toBe(false);
  });
});

describe("the warning", () => {
  beforeEach(() => {
    vi.resetModules();
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });

  const fresh = async (env: string | undefined) => {
    vi.stubEnv("NODE_ENV", env);
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const { memoryStore: make } = await import("../../src/stores/memory/index.ts");
    return { warn, make };
  };

  test("is logged once in production, when the process makes its first store", async () => {
    const { warn, make } = await fresh("production");
    expect(warn).not.toHaveBeenCalled();
    make();
    make();
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]!.join(" ")).toMatch(/stayhook: memoryStore\(\) forgets .* sqliteStore/);
  });

  test.each([undefined, "", "test", "development", "Production"])(
    "is not logged where NODE_ENV is %s",
    async (env) => {
      const { warn, make } = await fresh(env);
      make();
      expect(warn).not.toHaveBeenCalled();
    },
  );

  test.each([
    ["granted", 1],
    ["prompt", 0],
    ["denied", 0],
  ])("on Deno with the permission to read NODE_ENV %s, is logged %s times", async (state, times) => {
    const querySync = vi.fn(() => ({ state }));
    vi.stubGlobal("Deno", { permissions: { querySync } });
    const { warn, make } = await fresh("production");
    make();
    expect(warn).toHaveBeenCalledTimes(times);
    expect(querySync).toHaveBeenCalledWith({ name: "env", variable: "NODE_ENV" });
  });

  test("is not logged if the runtime forbids access to the environment", async () => {
    const { warn, make } = await fresh("production");
    vi.stubGlobal("process", {
      get env() {
        throw new Error("not allowed");
      },
    });
    make();
    expect(warn).not.toHaveBeenCalled();
  });

  test("is not logged for invalid options", async () => {
    const { warn, make } = await fresh("production");
    expect(() => make({ transaction: 0 as never })).toThrow();
    expect(warn).not.toHaveBeenCalled();
    make();
    expect(warn).toHaveBeenCalledTimes(1);
  });
});

describe("time", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("comes from Date, and the store sets no timer", async () => {
    const store = memoryStore();
    store.subscribe?.(() => {});
    await store.add(event("1", "booking:A"));
    const [first] = await store.claim({ limit: 1, leaseDuration: 1000 });
    vi.advanceTimersByTime(999);
    expect(await store.nextDue()).toBe(1);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(await store.nextDue()).toBe(0);
    const [second] = await store.claim({ limit: 1, leaseDuration: 1000 });
    expect(second).toMatchObject({ eventId: first!.eventId, attempts: 2 });
    await store.settle(second!, { ...WAIT, count: "nothing", holdsRecord: true });
    vi.advanceTimersByTime(4999);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
    vi.advanceTimersByTime(1);
    const [third] = await store.claim({ limit: 1, leaseDuration: 1000 });
    expect(third).toMatchObject({ attempts: 2, outages: 1, outageFor: 5000 });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("events of one millisecond keep their order", async () => {
    const store = memoryStore();
    const ids = Array.from({ length: 50 }, (_, index) => `event ${index}`);
    for (const id of ids) await store.add(event(id, `booking:${Number(id.slice(6)) * 7919}`));
    const claims = await store.claim({ limit: 50, leaseDuration: 1000 });
    expect(claims.map(({ eventId }) => eventId)).toEqual(ids);
    expect((await store.list({ limit: 50 })).map(({ eventId }) => eventId)).toEqual(ids.toReversed());
  });

  test("a claim with a lease of 0 ms returns only one event of a record", async () => {
    const store = memoryStore();
    for (const id of ["1", "2"]) await store.add(event(id, "booking:A"));
    expect(await store.claim({ limit: 5, leaseDuration: 0 })).toHaveLength(1);
  });
});

test("100,000 fired timers take no other done event's place", async () => {
  const store = memoryStore();
  const seenAt = new Date("2026-03-01T10:00:00.000Z");
  const timers = Array.from({ length: 100_000 }, (_, index) =>
    storedEvent({
      ...{ eventId: `stayhook:timer:${index}`, ref: "booking:T", source: "timer", state: "done" },
      ...{ attempts: 1, receivedAt: seenAt, dueAt: null, doneAt: seenAt },
    }),
  );
  const snapshot = { status: "Confirmed", fields: {} };
  await store.restore({ events: timers, snapshots: [{ ref: "booking:T", snapshot, sequence: 1, seenAt }] });
  await store.add(event("1", "booking:A"));
  const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
  expect(await store.settle(claim!, DONE)).toBe(true);
  expect(await store.add(event("1", "booking:A"))).toBe("duplicate");
  expect(await store.snapshotOf("booking:A")).toMatchObject({ snapshot: DONE.record.snapshot, sequence: 1 });
  expect(await store.counts()).toMatchObject({ done: 100_001 });
});

test("the oldest done event makes room for the 100,001st", async () => {
  const store = memoryStore();
  const endedAt = new Date("2026-03-01T10:00:00.000Z");
  const done = Array.from({ length: 100_000 }, (_, index) =>
    storedEvent({
      ...{ eventId: String(index), ref: "booking:A", state: "done" },
      ...{ attempts: 1, receivedAt: endedAt, dueAt: null, doneAt: endedAt },
    }),
  );
  await store.restore({ events: done, snapshots: [] });
  await store.add(event("new", "booking:B"));
  const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
  await store.settle(claim!, DONE);
  expect(await store.get("0")).toBeUndefined();
  expect(await store.get("1")).toMatchObject({ state: "done" });
  expect(await store.get("new")).toMatchObject({ state: "done" });
});

test("prune rejects the state pending, and deletes no waiting event", async () => {
  const store = memoryStore();
  await store.add(event("1"));
  const options = { state: "pending", age: 0, limit: 10 } as never;
  await expect(store.prune(options)).rejects.toThrow('state: must be "done" or "parked"');
  expect((await store.counts()).pending).toBe(1);
});

test("a subscriber may use the store when it is woken", async () => {
  const store = memoryStore();
  const claimed: string[] = [];
  store.subscribe?.(async () => {
    for (const claim of await store.claim({ limit: 1, leaseDuration: 1000 })) {
      claimed.push(claim.eventId);
      await store.settle(claim, DONE);
    }
  });
  await store.add(event("1", "booking:A"));
  await store.add(event("2", "booking:A"));
  await eventually(() => expect(claimed).toEqual(["1", "2"]));
});
