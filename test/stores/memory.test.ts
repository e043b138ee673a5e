import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { InvalidArgumentError, StayhookError } from "../../src/errors.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import type { EventStore, NewEvent } from "../../src/stores/event-store.ts";
import { storeContract } from "../../src/testing/store-contract.ts";

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

const DONE = { state: "done", type: "booking.Confirmed", status: "Confirmed" } as const;
const PARKED = { state: "parked", reason: "callback", error: "" } as const;

async function handle(store: EventStore, outcome: Parameters<EventStore["settle"]>[1] = DONE): Promise<void> {
  const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
  expect(await store.settle(claim!, outcome)).toBe(true);
}

describe("max", () => {
  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "10", null] as number[])(
    "%s is refused, by name",
    (max) => {
      // null is what a caller without types may pass.
      expect(() => memoryStore({ max })).toThrow(InvalidArgumentError);
      expect(() => memoryStore({ max })).toThrow("max: must be a whole number, 1 or more");
    },
  );

  test("undefined is the default", () => {
    expect(() => memoryStore({ max: undefined })).not.toThrow();
  });

  test("the oldest done ids beyond it are forgotten, nothing else", async () => {
    const store = memoryStore({ max: 2 });
    await store.add(event("parked"));
    await handle(store, PARKED);
    await store.add(event("replayed"));
    await handle(store);
    await store.replay("replayed");
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
    expect(await store.statusOf("booking:A")).toMatchObject({ status: "Confirmed", sequence: 1 });

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
    vi.restoreAllMocks();
  });

  test("comes once in a process, when the first store is made", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const fresh = await import("../../src/stores/memory.ts");
    expect(warn).not.toHaveBeenCalled();
    fresh.memoryStore();
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]?.[0]).toMatch(/memoryStore\(\) forgets .* sqliteStore/);
    fresh.memoryStore();
    expect(warn).toHaveBeenCalledTimes(1);
  });

  test("does not come for a store that is refused", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const fresh = await import("../../src/stores/memory.ts");
    expect(() => fresh.memoryStore({ max: 0 })).toThrow();
    expect(warn).not.toHaveBeenCalled();
  });
});

describe("time", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("is Date's, and sets no timer", async () => {
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
    const wait = { state: "retrying", in: 5000, reason: "unavailable", error: "" } as const;
    await store.settle(second!, { ...wait, counted: false });
    vi.advanceTimersByTime(4999);
    expect(await store.claim({ limit: 1, leaseDuration: 1000 })).toEqual([]);
    vi.advanceTimersByTime(1);
    const [third] = await store.claim({ limit: 1, leaseDuration: 1000 });
    expect(third).toMatchObject({ attempts: 2, outages: 1, outageFor: 5000 });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("that has run out takes no lease which nobody else wanted", async () => {
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

  test("an attempt that was given back has its place before what came later", async () => {
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

  test("a lease of no time still gives one event a claim", async () => {
    const store = memoryStore();
    await store.add(event("1", "booking:A"));
    await store.add(event("2", "booking:A"));
    expect(await store.claim({ limit: 5, leaseDuration: 0 })).toHaveLength(1);
  });
});

test("a closed store says so", async () => {
  const store = memoryStore();
  await store.close();
  await expect(store.add(event("1"))).rejects.toThrow(StayhookError);
  await expect(store.nextDue()).rejects.toThrow("The store is closed.");
  expect(() => store.subscribe?.(() => {})).toThrow(StayhookError);
});

test("behind an event that is gone the list ends", async () => {
  const store = memoryStore();
  await store.add(event("1"));
  expect(await store.list({ limit: 5, after: "unknown" })).toEqual([]);
});

test("there are no transactions", () => {
  expect("transactional" in memoryStore()).toBe(false);
});

test("a subscriber may use the store while it is woken", async () => {
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
