import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { InvalidArgumentError, StayhookError } from "../../src/errors.ts";
import { storeContract } from "../../src/stores/contract/store-contract.ts";
import type { EventStore, NewEvent } from "../../src/stores/event-store.ts";
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
const PARKED = { state: "parked", reason: "callback", entry: { duration: 1 } } as const;

const WAIT = { state: "retrying", in: 5000, reason: "unavailable", entry: { duration: 1 } } as const;

async function handle(store: EventStore, outcome: Parameters<EventStore["settle"]>[1] = DONE): Promise<void> {
  const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
  expect(await store.settle(claim!, outcome)).toBe(true);
}

describe("max", () => {
  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "10", null] as number[])(
    "%s is rejected, and the error names max",
    (max) => {
      // A caller without types may pass null.
      expect(() => memoryStore({ max })).toThrow(InvalidArgumentError);
      expect(() => memoryStore({ max })).toThrow("max: must be a whole number, 1 or more");
    },
  );

  test("undefined means the default", () => {
    expect(() => memoryStore({ max: undefined })).not.toThrow();
  });

  test("only the oldest done events beyond max are deleted", async () => {
    const store = memoryStore({ max: 2 });
    await store.add(event("parked"));
    await handle(store, PARKED);
    await store.add(event("replayed"));
    await handle(store);
    await store.replay({ eventId: "replayed" });
    const [held] = await store.claim({ limit: 1, leaseDuration: 1000 });
    for (const id of ["1", "2", "3", "4"]) {
      await store.add(event(id, "booking:A"));
      await handle(store);
    }
    await store.add(event("pending"));

    const kept = (await store.list({ limit: 10 })).map(({ eventId }) => eventId);
    expect(kept).toEqual(["pending", "4", "3", "replayed", "parked"]);
    expect(await store.add(event("3", "booking:A"))).toBe("duplicate");
    expect(await store.add(event("2", "booking:A"))).toBe("added");
    expect(await store.recordOf("booking:A")).toMatchObject({
      snapshot: { status: "Confirmed" },
      sequence: 4,
    });

    expect(await store.settle(held!, DONE)).toBe(true);
    expect((await store.list({ state: "done", limit: 10 })).map(({ eventId }) => eventId)).toEqual([
      "4",
      "replayed",
    ]);
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
    expect(() => make({ max: 0 })).toThrow();
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

  test("a released event comes before events that arrived later", async () => {
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
    vi.advanceTimersByTime(10);
    await store.add(event("2", "booking:B"));
    vi.advanceTimersByTime(10);
    await store.settle(claim!, { state: "released" });
    const [next] = await store.claim({ limit: 1, leaseDuration: 1000 });
    expect(next?.eventId).toBe("1");
  });

  test("a retry's wait ends at its time, or if the clock is set back to before its start", async () => {
    const start = Date.now();
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
    await store.settle(claim!, { ...WAIT, counted: true });
    vi.setSystemTime(start + 4999);
    expect(await store.nextDue()).toBe(1);
    vi.setSystemTime(start);
    expect(await store.nextDue()).toBe(5000);
    vi.setSystemTime(start - 1);
    expect(await store.nextDue()).toBe(0);
    vi.setSystemTime(start + 1);
    expect(await store.nextDue()).toBe(0);
    vi.setSystemTime(start - 3_600_000);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toMatchObject([
      { eventId: "1", attempts: 2 },
    ]);
  });

  test("dueIn and a record's wait also end if the clock is set back", async () => {
    const start = Date.now();
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
    await store.add(event("2", "booking:A"));
    await store.settle(claim!, { ...WAIT, counted: false });
    await store.add(event("3", "booking:B"), { dueIn: 5000 });
    expect(await store.claim({ limit: 5, leaseDuration: 1000 })).toEqual([]);
    expect(await store.oldestWaiting()).toBe(0);
    vi.setSystemTime(start - 3_600_000);
    expect(await store.nextDue()).toBe(0);
    const claims = await store.claim({ limit: 5, leaseDuration: 1000 });
    expect(claims.map(({ eventId }) => eventId)).toEqual(["1", "3"]);
  });

  test("an event without dueIn is due even if the clock is set back", async () => {
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    vi.setSystemTime(Date.now() - 3_600_000);
    await store.add(event("2", "booking:B"));
    expect(await store.oldestWaiting()).toBe(0);
    expect(await store.claim({ limit: 5, leaseDuration: 1000 })).toHaveLength(2);
  });

  test("a lease does not end early if the clock is set back", async () => {
    const start = Date.now();
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    await store.claim({ limit: 1, leaseDuration: 1000 });
    vi.setSystemTime(start - 5000);
    expect(await store.nextDue()).toBe(6000);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
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
  await expect(store.nextDue()).rejects.toThrow("The store is closed.");
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

test("the memory store has no transactions", () => {
  expect("transactional" in memoryStore()).toBe(false);
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
