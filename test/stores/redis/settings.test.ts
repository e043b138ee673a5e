import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { CLAIM, DONE, eventOf, silent } from "../event.ts";

const own = await startOwnRedis();
const admin = own && new Redis(own.url);
afterAll(async () => {
  admin?.disconnect();
  await own?.close();
});

const SAFE = { appendonly: "yes", appendfsync: "always", save: "", "maxmemory-policy": "noeviction" };

async function set(settings: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, value] of Object.entries({ ...SAFE, ...settings }))
    await admin!.config("SET", name, value);
}

/** Returns the warnings of a store on a server with these settings. */
async function warningsWith(settings: Readonly<Record<string, string>>): Promise<string[]> {
  await set(settings);
  const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const store = redisStore({ url: own!.url, prefix: "settings", logger });
  await store.counts();
  await store.add(eventOf());
  await store.close();
  // The store reads the settings in the background. Wait until only this client is connected.
  await eventually(async () => {
    const info = await admin!.client("LIST");
    expect(String(info).split("\n").filter(Boolean).length).toBe(1);
  });
  return logger.warn.mock.calls.map(([message]) => String(message));
}

describe.skipIf(own === undefined)("at its first use, the store warns of data loss", () => {
  test("no warning if Redis syncs each write to disk before it answers", async () => {
    expect(await warningsWith({})).toEqual([]);
  });

  test.each([
    ["without persistence", { appendonly: "no" }, [/no snapshots.* every event is lost/]],
    ["with snapshots only", { appendonly: "no", save: "900 1" }, [/all events since its last snapshot/]],
    ["with appendfsync everysec", { appendfsync: "everysec" }, [/everysec.* up to two seconds/]],
    ["with appendfsync no", { appendfsync: "no" }, [/half a minute/]],
    ["with eviction of all keys", { "maxmemory-policy": "allkeys-lru" }, [/allkeys-lru.* deletes/]],
    // The keys of the store have no expiry.
    ["no warning with eviction of expiring keys only", { "maxmemory-policy": "volatile-lru" }, []],
    [
      "two warnings with two unsafe settings",
      { appendfsync: "no", "maxmemory-policy": "allkeys-random" },
      [/allkeys-random/, /fsync/],
    ],
  ])("%s", async (_, settings, expected) => {
    const warnings = await warningsWith(settings as Record<string, string>);
    expect(warnings).toEqual(expected.map((each) => expect.stringMatching(each)));
    for (const warning of warnings) expect(warning).toMatch(/^stayhook: redisStore \(127\.0\.0\.1:\d+\): /);
  });

  test("once, and on the console by default", async () => {
    await set({ appendonly: "no" });
    const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
    const store = redisStore({ url: own!.url, prefix: "settings" });
    for (let times = 0; times < 3; times += 1) await store.counts();
    await eventually(() => expect(warned).toHaveBeenCalledTimes(1));
    expect(warned.mock.calls[0]?.join(" ")).toContain("every event is lost");
    await store.close();
    expect(warned).toHaveBeenCalledTimes(1);
    warned.mockRestore();
  });
});

describe.skipIf(own === undefined)("on a server that hides its settings", () => {
  beforeEach(async () => {
    await set({ appendonly: "no" });
    const keys = ["~{shy}*", "&{shy}:wake"];
    // The commands that docs/stores/redis.md allows.
    const commands = "+@read +@write +@scripting +@connection +@pubsub +time +info".split(" ");
    await admin!.call("ACL", "SETUSER", "shy", "reset", "on", ">quiet", ...keys, ...commands);
  });

  async function warnings() {
    const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
    const store = redisStore({ url: own!.url.replace("//", "//shy:quiet@"), prefix: "shy", logger });
    expect(await store.add(eventOf(null))).toBe("added");
    return { store, logger };
  }

  test("the store warns by INFO if CONFIG is forbidden", async () => {
    const { store, logger } = await warnings();
    await eventually(() => expect(logger.warn).toHaveBeenCalledTimes(1));
    expect(logger.warn.mock.calls[0]?.[0]).toContain("appendonly is set to no");
    const woken = vi.fn();
    store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    for (const claim of await store.claim(CLAIM)) await store.settle(claim, DONE);
    expect(await store.prune({ state: "done", age: 0, limit: 10 })).toBe(1);
    await store.close();
  });

  test("the store gives no warning if INFO is forbidden, too", async () => {
    await admin!.call("ACL", "SETUSER", "shy", "-info");
    const { store, logger } = await warnings();
    await eventually(() => expect(logger.debug).toHaveBeenCalledTimes(1));
    expect(logger.warn).not.toHaveBeenCalled();
    await store.close();
  });

  test("a command that the ACL forbids is an error that says so", async () => {
    await admin!.call("ACL", "SETUSER", "shy", "-publish");
    const store = redisStore({
      url: own!.url.replace("//", "//shy:quiet@"),
      prefix: "shy",
      logger: silent,
    });
    await expect(store.add(eventOf())).rejects.toThrow(
      /the ACL of Redis does not allow this user to run the command/,
    );
    await store.close();
  });
});
