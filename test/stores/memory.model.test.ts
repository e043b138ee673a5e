import { expect, test } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { checkAgainstModel } from "./model-check.ts";

test("the memory store gives the same results as the model", async () => {
  await checkAgainstModel({ create: () => memoryStore(), numRuns: 25 });
}, 60_000);

/** Returns retries first if the claim asks for the newest event. */
class WrongStore extends MemoryStore {
  override claim(options: Parameters<MemoryStore["claim"]>[0]) {
    return super.claim({ ...options, order: options.order === "newest" ? "retries" : options.order });
  }
}

test("the check finds a store with a mistake, and prints the seed", async () => {
  const create = () => new WrongStore(100);
  await expect(checkAgainstModel({ create, numRuns: 300 })).rejects.toThrow(/seed: -?\d+/);
}, 60_000);
