import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { InvalidArgumentError, StayhookError } from "../../src/errors.ts";
import { storeContract } from "../../src/stores/contract/store-contract.ts";
import type { NewEvent } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";

describe("storeContract", () => {
  for (const { name, run } of storeContract(() => memoryStore())) test.concurrent(name, run);
});

const event = (eventId: string, ref: string | null = null): NewEvent => ({
  eventId,
  ref,
  source: "webhook",
  topic: null,
  timestamp: "2026-03-01T10:00:00.000Z",
  notification: "{}",
});

const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 1 },
  record: { snapshot: { status: "Confirmed", fields: {} }, changed: true },
} as const;
const WAIT = { state: "retrying", in: 5000, reason: "unavailable", entry: { duration: 1 } } as const;

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
      await vi.waitFor(async () =>
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
    await store.settle(second!, { ...WAIT, counted: false });
    vi.advanceTimersByTime(4999);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
    vi.advanceTimersByTime(1);
    const [third] = await store.claim({ limit: 1, leaseDuration: 1000 });
    expect(third).toMatchObject({ attempts: 2, outages: 1, outageFor: 5000 });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("after the end of a lease does not end the lease before another claim", async () => {
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
    vi.advanceTimersByTime(2000);
    expect(await store.renew([claim!], 1000)).toEqual([claim]);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
    vi.advanceTimersByTime(2000);
    expect(await store.settle(claim!, DONE)).toBe(true);
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
    await store.add(event("1", "booking:A"));
    await store.add(event("2", "booking:A"));
    expect(await store.claim({ limit: 5, leaseDuration: 0 })).toHaveLength(1);
  });
});

test("calls of a closed store fail, and their errors say so", async () => {
  const store = memoryStore();
  await store.close();
  await expect(store.add(event("1"))).rejects.toThrow(StayhookError);
  await expect(store.nextDue()).rejects.toThrow("store is closed.");
  expect(() => store.subscribe?.(() => {})).toThrow(StayhookError);
});

test("a list after an unknown event is empty", async () => {
  const store = memoryStore();
  await store.add(event("1"));
  expect(await store.list({ limit: 5, after: "unknown" })).toEqual([]);
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
  await vi.waitFor(() => expect(claimed).toEqual(["1", "2"]));
});
