import { expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { compareWithMemory } from "../differential.ts";

const RUNS = Number(process.env.STAYHOOK_MODEL_RUNS ?? 10);

test("the store gives the same results as the memory store", async () => {
  const first = Math.floor(Math.random() * 1e9);
  for (let seed = first; seed < first + RUNS; seed++) {
    const store = sqliteStore(":memory:");
    await compareWithMemory(store, seed, 100);
    await store.close();
  }
  expect(RUNS).toBeGreaterThan(0);
}, 120_000);
