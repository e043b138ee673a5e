import { randomUUID } from "node:crypto";
import { afterAll } from "vitest";
import { type RedisStoreOptions, redisStore } from "../../../src/stores/redis/index.ts";
import { deleteKeys, redisUrl } from "../../support/redis-server.ts";
import { silent } from "../event.ts";

export const url = await redisUrl();

/** Returns prefixes for one test file, and deletes their keys after its tests. */
export function createPrefixes(): () => string {
  const file = `test-${randomUUID()}`;
  let prefixes = 0;
  afterAll(async () => {
    if (url !== undefined) await deleteKeys(url, `{${file}`);
  });
  return () => {
    prefixes += 1;
    return `${file}-${prefixes}`;
  };
}

/** Opens a store on the shared server. It does not warn about the settings of that server, which is not durable. */
export function openStore(prefix: string, options: Partial<RedisStoreOptions> = {}) {
  return redisStore({ url, prefix, logger: silent, ...options });
}
