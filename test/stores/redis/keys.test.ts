import { Redis } from "ioredis";
import { afterAll, describe, expect, test, vi } from "vitest";
import { silentLogger } from "../../../src/logger.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { CLAIM, DONE, eventOf } from "./event.ts";

const own = await startOwnRedis({ args: ["--appendonly", "no"] });
const admin = own && new Redis(own.url);
const store = own && redisStore({ url: own.url, prefix: "keys", logger: silentLogger });
afterAll(async () => {
  await store?.close();
  admin?.disconnect();
  await own?.close();
});

const later = { state: "retrying", in: 0, counted: true, reason: "callback", error: "x" } as const;
const given = { state: "parked", reason: "not-found", error: "404" } as const;

describe.skipIf(own === undefined)("keys", () => {
  test("are all under the prefix, none has a time to live, and nothing is left when all is forgotten", async () => {
    for (const ref of [null, "booking:A", "booking:A", "booking:B", "listing:1", null])
      await store!.add(eventOf(ref));
    const claims = await store!.claim(CLAIM);
    await store!.settle(claims[0]!, later);
    await store!.settle(claims[1]!, given);
    await store!.settle(claims[2]!, DONE);
    await store!.settle(claims[3]!, { ...later, counted: false, in: 50 });
    const keys = await admin!.keys("*");
    for (const key of keys) {
      expect(key).toMatch(/^\{keys\}:/);
      expect(await admin!.ttl(key), key).toBe(-1);
    }
    expect(new Set(keys.map((key) => key.split(":")[1]))).toEqual(
      new Set([
        "meta",
        "event",
        "notification",
        "state",
        "ended",
        "lock",
        "line",
        "ready",
        "statuses",
        "refs",
        "seen",
      ]),
    );
    const waiting = async () => (await store!.nextDue()) !== undefined;
    await store!.settle(claims[4]!, DONE);
    while (await waiting()) {
      for (const claim of await store!.claim(CLAIM)) {
        expect(await store!.settle(claim, claim.attempts > 1 ? DONE : later)).toBe(true);
      }
    }
    await store!.replayParked();
    for (const claim of await store!.claim(CLAIM)) await store!.settle(claim, given);
    const mended = eventOf("booking:C");
    await store!.add(mended);
    for (const outcome of [given, DONE]) {
      for (const claim of await store!.claim(CLAIM)) await store!.settle(claim, outcome);
      if (outcome === given) expect(await store!.replay(mended.eventId)).toBe(true);
    }
    await store!.prune({ state: "done", age: 0, limit: 1000 });
    await store!.prune({ state: "parked", age: 0, limit: 1000 });
    await store!.pruneRecords({ age: 0, limit: 1000 });
    expect(await admin!.keys("*")).toEqual(["{keys}:meta"]);
    expect(Object.keys(await admin!.hgetall("{keys}:meta")).sort()).toEqual(["ended", "format", "seq"]);
  });

  test("of a later version are refused, and not touched", async () => {
    await admin!.hset("{newer}:meta", "format", "2");
    const newer = redisStore({ url: own!.url, prefix: "newer", logger: silentLogger });
    await expect(newer.add(eventOf())).rejects.toThrow(
      /newer version of stayhook \(format 2.*update stayhook/,
    );
    expect(await admin!.keys("{newer}:*")).toEqual(["{newer}:meta"]);
    // Who listens tries again; no connection is left over of the tries before.
    const connections = async () => {
      const [, given] = /total_connections_received:(\d+)/.exec(await admin!.info("stats")) ?? [];
      const [, open] = /connected_clients:(\d+)/.exec(await admin!.info("clients")) ?? [];
      return { given: Number(given), open: Number(open) };
    };
    const before = await connections();
    newer.subscribe?.(() => {});
    await vi.waitFor(
      async () => expect((await connections()).given).toBeGreaterThan(before.given + 2),
      10_000,
    );
    expect((await connections()).open).toBeLessThanOrEqual(before.open + 1);
    await newer.close();
  });

  test("of a small event take little, and those of a done one no more", async () => {
    const event = eventOf("booking:HM12345678");
    const notification = JSON.stringify({
      eventId: event.eventId,
      bookingCode: "HM12345678",
      listingId: null,
    });
    await store!.add({ ...event, notification });
    const [claim] = await store!.claim(CLAIM);
    await store!.settle(claim!, DONE);
    // As a list and not as a table, which is four times the size.
    expect(await admin!.object("ENCODING", `{keys}:event:${event.eventId}`)).toBe("listpack");
  });
});

describe.skipIf(own === undefined)("what a call costs", () => {
  /** How often each command ran inside Redis while `run` did. */
  async function commandsOf(run: () => Promise<unknown>): Promise<Record<string, number>> {
    await admin!.config("RESETSTAT");
    await run();
    const lines = (await admin!.info("commandstats")).matchAll(/cmdstat_(\S+):calls=(\d+)/g);
    const calls = [...lines].map(([, name = "", count]) => [name, Number(count)] as const);
    const ours = /^(evalsha|eval|info|client|config|select|ping|hello|script)(\||$)/;
    return Object.fromEntries(calls.filter(([name]) => !ours.test(name)).sort());
  }

  const once = async () => {
    const [claim] = await store!.claim({ limit: 1, leaseDuration: 60_000 });
    await store!.renew([claim!], 60_000);
    await store!.settle(claim!, DONE);
  };

  test("does not grow with what waits for a record, nor with what is kept", async () => {
    // What lies around of earlier tests counts, too.
    for (const claim of await store!.claim(CLAIM)) await store!.settle(claim, DONE);
    const add = async () => void (await store!.add(eventOf("booking:hot")));
    const [added, spent] = [await commandsOf(add), await commandsOf(once)];
    await Promise.all(Array.from({ length: 3000 }, add));
    for (let index = 0; index < 200; index += 1) await once();
    const addedLater = await commandsOf(add);
    const spentLater = await commandsOf(once);
    // The hot record's lock is there already, and stays: that much is different.
    const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);
    expect(sum(addedLater)).toBeLessThanOrEqual(sum(added) + 2);
    expect(sum(spentLater)).toBeLessThanOrEqual(sum(spent) + 8);
    // None that looks at all there is; what they read of a set is bounded by a limit.
    for (const name of Object.keys({ ...addedLater, ...spentLater })) {
      expect([
        "hget",
        "hmget",
        "hgetall",
        "get",
        "set",
        "hset",
        "hdel",
        "hincrby",
        "del",
        "time",
        "publish",
        "zadd",
        "zrem",
        "zrange",
        "zrangebyscore",
      ]).toContain(name);
    }
    await admin!.config("SET", "slowlog-log-slower-than", "20000");
    await admin!.slowlog("RESET");
    for (let index = 0; index < 20; index += 1) await once();
    await store!.list({ limit: 20 });
    await store!.oldestWaiting();
    await store!.nextDue();
    expect(await admin!.slowlog("LEN")).toBe(0);
  }, 60_000);

  test("statuses, pruning and replaying go in small pieces", async () => {
    const store = redisStore({ url: own!.url, prefix: "pieces", logger: silentLogger });
    const events = Array.from({ length: 450 }, (_, index) => eventOf(`booking:${index}`));
    await Promise.all(events.map((event) => store.add(event)));
    for (;;) {
      const claims = await store.claim({ limit: 300, leaseDuration: 60_000 });
      if (claims.length === 0) break;
      await Promise.all(claims.map((claim) => store.settle(claim, given)));
    }
    const scripts = async (run: () => Promise<unknown>) => {
      await admin!.config("RESETSTAT");
      const result = await run();
      return [result, Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin!.info("commandstats"))?.[1])];
    };
    expect(await store.replayParked({ reason: "callback" })).toBe(0);
    expect(await scripts(() => store.replayParked())).toEqual([450, 4]);
    for (;;) {
      const claims = await store.claim({ limit: 300, leaseDuration: 60_000 });
      if (claims.length === 0) break;
      await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    }
    const collect = async () => {
      const refs = new Set<string>();
      for await (const { ref } of store.statuses()) refs.add(ref);
      return refs.size;
    };
    const [statuses, pages] = await scripts(collect);
    expect(statuses).toBe(450);
    expect(pages).toBe(3);
    expect((await store.list({ limit: 1000 })).length).toBe(450);
    expect(await scripts(() => store.prune({ state: "done", age: 0, limit: 450 }))).toEqual([450, 3]);
    expect(await scripts(() => store.pruneRecords({ age: 0, limit: 250 }))).toEqual([250, 2]);
    await store.close();
  }, 60_000);
});
