import { expect, test } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import type { ClaimOptions } from "../../src/stores/store-options.ts";
import { checkAgainstModel } from "./model-check.ts";

test("the memory store gives the same results as the model", async () => {
  const numRuns = Number(process.env.STAYHOOK_MODEL_RUNS ?? 100);
  await checkAgainstModel({ create: () => memoryStore(), numRuns });
});

/** Claims the oldest event of the store, whatever its due time. */
class WrongStore extends MemoryStore {
  override async claim(options: ClaimOptions) {
    const [oldest] = (await this.list({ state: "retrying", limit: 1 })).reverse();
    return super.claim({ ...options, eventId: options.eventId ?? oldest?.eventId });
  }
}

test("the check finds a store with a mistake, and prints the seed", async () => {
  const create = (): EventStore<unknown> => new WrongStore();
  await expect(checkAgainstModel({ create, numRuns: 300 })).rejects.toThrow(/seed: -?\d+/);
});
