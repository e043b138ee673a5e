import { describe, expect, test, vi } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import type { EventStore, Write } from "../../../src/stores/event-store.ts";
import { memoryStore } from "../../../src/stores/memory/index.ts";
import { mistakes } from "./mistakes.ts";
import { handleOn, type Wrap, wrapped } from "./wrapped.ts";

const short = { unit: 20 };

describe("a store fails the contract", () => {
  for (const [fails, wraps] of Object.entries(mistakes))
    for (const [mistake, wrap] of Object.entries(wraps))
      test.concurrent(`if it ${mistake}`, async () => {
        const found = storeContract(() => wrapped(wrap), short).find(({ name }) => name === fails);
        await expect(found?.run()).rejects.toThrow(/expected|waited|claimed|early/);
      });
});

describe("transactions", () => {
  const casesOf = (create: () => EventStore<unknown>) =>
    storeContract(create, short).filter(({ topic }) => topic === "writes");

  test("a store with transactions passes", async () => {
    const transaction = (run: (tx: unknown) => void | Promise<void>) => run("the handle");
    for (const { run } of casesOf(() => memoryStore({ transaction }))) await run();
  });

  type RunWrites = (writes: readonly Write<unknown>[], settle: () => Promise<boolean>) => Promise<boolean>;
  /** Makes a transactional store from one that is not. */
  const runningWrites =
    (runWrites: RunWrites): Wrap =>
    (store) => ({
      transactional: true,
      async settle(claim, outcome) {
        const writes = (outcome.state === "done" ? outcome.writes : undefined) ?? [];
        const plain = outcome.state === "done" ? { ...outcome, writes: undefined } : outcome;
        return runWrites(writes, () => store.settle(claim, plain));
      },
    });

  test.each<[string, string, RunWrites]>([
    ["does not run the writes", "the functions in `writes` run once", (_, settle) => settle()],
    [
      "gives each write another handle",
      "the functions in `writes` run once",
      async (writes, settle) => {
        for (const write of writes) await write({});
        return settle();
      },
    ],
    [
      "runs the writes without the lease",
      "`settle` with `writes` and a lost lease",
      async (writes, settle) => {
        for (const write of writes) await write("tx");
        return settle();
      },
    ],
    [
      "ends the event before the writes",
      "a function in `writes` throws",
      async (writes, settle) => {
        const held = await settle();
        for (const write of writes) await write("tx");
        return held;
      },
    ],
  ])("a store that %s fails", async (_, name, runWrites) => {
    const found = casesOf(() => wrapped(runningWrites(runWrites))).find((each) => each.name.includes(name));
    await expect(found?.run()).rejects.toThrow(/expected/);
  });
});

describe("restarts and sharing", () => {
  const named = (topic: string) => (each: { topic: string }) => each.topic === topic;

  test("their cases exist only with the options reopen and another", () => {
    const topics = (options: object) =>
      new Set(storeContract(memoryStore, options).map(({ topic }) => topic));
    expect(topics({})).not.toContain("restart");
    expect(topics({})).not.toContain("sharing");
    expect(topics({ reopen: handleOn })).toContain("restart");
    expect(topics({ another: handleOn })).toContain("sharing");
  });

  test("a store that loses its data fails", async () => {
    const options = { ...short, reopen: () => memoryStore(), another: () => memoryStore() };
    const cases = storeContract(() => memoryStore(), options);
    const extra = [...cases.filter(named("restart")), ...cases.filter(named("sharing"))];
    expect(extra.length).toBeGreaterThan(5);
    await Promise.all(extra.map(({ run, name }) => expect(run(), name).rejects.toThrow(/expected|waited/)));
  });
});

describe("the list of cases", () => {
  test("gives each case a unique name that begins with its topic", () => {
    const cases = storeContract(() => memoryStore());
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
    for (const { name, topic } of cases) expect(name.startsWith(`${topic}: `)).toBe(true);
  });

  test("makes a store for each run, and closes it, even after a failure", async () => {
    const stores: EventStore<unknown>[] = [];
    const create = vi.fn(async () => {
      const store = wrapped(() => ({ oldestWaiting: async () => 5 }));
      stores.push(store);
      return store;
    });
    const cases = storeContract(create, short);
    expect(create).not.toHaveBeenCalled();
    const passing = cases.find(({ name }) => name === "claim: an empty store has nothing to claim");
    const failing = cases.find(({ name }) => name.startsWith("read: oldestWaiting is"));
    await passing?.run();
    await passing?.run();
    await expect(failing?.run()).rejects.toThrow("in an empty store: expected undefined, got 5");
    expect(create).toHaveBeenCalledTimes(3);
    for (const store of stores) await expect(store.counts()).rejects.toThrow("closed");
  });

  test("rejects with the case's error if close fails, too", async () => {
    const wrap: Wrap = (store) => ({
      claim: async () => [],
      async close() {
        await store.close();
        throw new Error("cannot close");
      },
    });
    const cases = storeContract(() => wrapped(wrap), short);
    const failing = cases.find(({ name }) => name === "claim: a claim has every field that an attempt needs");
    await expect(failing?.run()).rejects.toThrow("claim(): expected 1 event, got 0");
    const passing = cases.find(({ name }) => name === "claim: an empty store has nothing to claim");
    await expect(passing?.run()).rejects.toThrow("cannot close");
  });
});
