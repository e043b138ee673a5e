import { test } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { checkAgainstModel } from "./model-check.ts";

test("the store does what a plain list of all events does", async () => {
  const max = 4;
  await checkAgainstModel({ create: () => memoryStore({ max }), max, sameTime: "first ended", numRuns: 500 });
}, 60_000);
