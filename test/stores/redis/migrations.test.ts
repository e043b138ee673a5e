import { describe, expect, onTestFinished, test, vi } from "vitest";
import { eventOf } from "../event.ts";
import { createPrefixes, openStore, url } from "./support.ts";

const prefix = createPrefixes();

/** Opens a handle of a version of stayhook whose keys have two versions more. */
async function openLater(name: string, options: { readonly migrate?: boolean } = {}) {
  vi.resetModules();
  vi.doMock("../../../src/stores/redis/redis-migrations.ts", () => ({
    FIRST_VERSION: 3,
    LATEST_VERSION: 5,
    migrations: [
      "call('HINCRBY', base .. ':meta', 'runs', 1)",
      "call('HINCRBY', base .. ':meta', 'runs', 10)",
    ],
  }));
  onTestFinished(() => void vi.doUnmock("../../../src/stores/redis/redis-migrations.ts"));
  const { redisStore } = await import("../../../src/stores/redis/index.ts");
  const store = redisStore({ url, prefix: name, logger: () => {}, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** Returns the sum of the steps that ran. */
async function runsOf(name: string): Promise<string | null> {
  const { Redis } = await import("ioredis");
  const client = new Redis(url!);
  const runs = await client.hget(`{${name}}:meta`, "runs");
  client.disconnect();
  return runs;
}

describe.skipIf(url === undefined)("the keys of Redis", () => {
  test("are upgraded once, by many handles at once, and the older version goes on", async () => {
    const name = prefix();
    const older = openStore(name);
    onTestFinished(() => older.close());
    await older.add(eventOf());
    expect(await older.schema?.()).toEqual({ version: 3, expected: 3 });
    const later = await Promise.all(Array.from({ length: 5 }, () => openLater(name)));
    await Promise.all(later.map((store) => store.counts()));
    expect(await runsOf(name)).toBe("11");
    expect(await later[0]!.schema?.()).toEqual({ version: 5, expected: 5 });
    expect(await older.schema?.()).toEqual({ version: 5, expected: 3 });
    expect(await older.add(eventOf())).toBe("added");
    const back = openStore(name);
    onTestFinished(() => back.close());
    expect(await back.counts()).toMatchObject({ pending: 2 });
    expect(await back.schema?.()).toEqual({ version: 5, expected: 3 });
  });

  test("are made by every step if there are none", async () => {
    const name = prefix();
    await (await openLater(name)).counts();
    expect(await runsOf(name)).toBe("11");
  });

  test("are not changed with migrate: false, and the error says what to do", async () => {
    const name = prefix();
    const strict = await openLater(name, { migrate: false });
    await expect(strict.counts()).rejects.toThrow(
      `the keys {${name}}:* do not exist, this version of stayhook needs schema version 5, and the option migrate is false. Start one process without migrate: false`,
    );
    expect(await strict.schema?.()).toEqual({ version: 0, expected: 5 });
    const older = openStore(name);
    onTestFinished(() => older.close());
    await older.add(eventOf());
    await expect(strict.counts()).rejects.toThrow(`the keys {${name}}:* have schema version 3`);
    await (await openLater(name)).counts();
    expect(await strict.counts()).toMatchObject({ pending: 1 });
  });
});
