import { describe, test } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { storeContract } from "../../src/testing/store-contract.ts";

describe("storeContract", () => {
  for (const { name, run } of storeContract(() => memoryStore())) test(name, run);
});
