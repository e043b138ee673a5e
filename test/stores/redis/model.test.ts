import { test } from "vitest";
import { Connection } from "../../../src/stores/redis/redis-connection.ts";
import { RedisStore } from "../../../src/stores/redis/redis-store.ts";
import { checkAgainstModel } from "../model-check.ts";
import { createPrefixes, url } from "./support.ts";

const prefix = createPrefixes();

test.skipIf(url === undefined)(
  "the store gives the same results as the model",
  async () => {
    const create = () => {
      const connection = new Connection(url!, `{${prefix()}}`, 10_000);
      return new RedisStore(connection, { now: Date.now });
    };
    await checkAgainstModel({ create, numRuns: Number(process.env.STAYHOOK_MODEL_RUNS ?? 40) });
  },
  170_000,
);
