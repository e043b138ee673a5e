import { test } from "vitest";
import { Connection } from "../../../src/stores/redis/connection.ts";
import { UrlLink } from "../../../src/stores/redis/link.ts";
import { RedisStore } from "../../../src/stores/redis/store.ts";
import { checkAgainstModel } from "../model-check.ts";
import { createPrefixes, url } from "./support.ts";

const prefix = createPrefixes();

test.skipIf(url === undefined)(
  "the store does what a plain list of all events does",
  async () => {
    const create = () => {
      const connection = new Connection(new UrlLink(url!), `{${prefix()}}`, 10_000);
      return new RedisStore(connection, () => {}, Date.now);
    };
    const max = Number.POSITIVE_INFINITY;
    await checkAgainstModel({ create, max, sameTime: "first ended", numRuns: 40 });
  },
  60_000,
);
