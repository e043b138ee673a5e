import { Redis } from "ioredis";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { CLAIM, DONE, eventOf, PARKED, RETRY, silent } from "../event.ts";

const own = await startOwnRedis({ args: ["--appendonly", "no"] });
const admin = own && new Redis(own.url);
const store = own && redisStore({ url: own.url, prefix: "keys", logger: silent });
afterAll(async () => {
  await store?.close();
  admin?.disconnect();
  await own?.close();
});

describe.skipIf(own === undefined)("keys", () => {
  test("are all under the prefix, have no time to live, and are deleted with their events and records", async () => {
    for (const ref of [null, "booking:A", "booking:A", "booking:B", "listing:1", null])
      await store!.add(eventOf(ref));
    // Events that became due in the same millisecond have no order.
    const claims = (await store!.claim(CLAIM)).sort((a, b) => String(b.ref).localeCompare(String(a.ref)));
    await store!.settle(claims[0]!, RETRY);
    await store!.settle(claims[1]!, PARKED);
    await store!.settle(claims[2]!, DONE);
    await store!.settle(claims[3]!, { ...RETRY, count: "nothing", holdsRecord: true, in: 50 });
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
        "since",
        "ended",
        "record",
        "open",
        "of",
        "due",
        "snapshots",
        "refs",
        "seen",
      ]),
    );
    const waiting = async () => (await store!.nextDue()) !== undefined;
    await store!.settle(claims[4]!, DONE);
    while (await waiting()) {
      for (const claim of await store!.claim(CLAIM)) {
        expect(await store!.settle(claim, claim.attempts > 1 ? DONE : RETRY)).toBe(true);
      }
    }
    await store!.replay({ state: "parked" });
    for (const claim of await store!.claim(CLAIM)) await store!.settle(claim, PARKED);
    const mended = eventOf("booking:C");
    await store!.add(mended);
    for (const outcome of [PARKED, DONE]) {
      for (const claim of await store!.claim(CLAIM)) await store!.settle(claim, outcome);
      if (outcome === PARKED) expect(await store!.replay({ eventId: mended.eventId })).toBe(1);
    }
    await store!.prune({ state: "done", age: 0, limit: 1000 });
    await store!.prune({ state: "parked", age: 0, limit: 1000 });
    await store!.pruneSnapshots({ age: 0, limit: 1000 });
    expect((await admin!.keys("*")).sort()).toEqual(["{keys}:meta", "{keys}:values"]);
    expect(Object.keys(await admin!.hgetall("{keys}:meta")).sort()).toEqual(["received", "schema", "seq"]);
  });

  test.each([
    ["format", "1"],
    ["schema", "1"],
    ["schema", "2"],
  ])("of an earlier version with the %s %s are rejected, and not changed", async (name, version) => {
    await admin!.hset("{old}:meta", name, version, "seq", "5");
    onTestFinished(() => void admin!.del("{old}:meta"));
    const old = redisStore({ url: own!.url, prefix: "old", logger: silent });
    await expect(old.add(eventOf())).rejects.toThrow(
      /earlier version wrote the keys \{old\}:\*.*the option prefix to another value/,
    );
    expect(await admin!.hgetall("{old}:meta")).toEqual({ [name]: version, seq: "5" });
    expect(await admin!.keys("{old}:*")).toEqual(["{old}:meta"]);
    // A listening store reconnects again and again. It must leave no connection open.
    const connections = async () => {
      const [, given] = /total_connections_received:(\d+)/.exec(await admin!.info("stats")) ?? [];
      const [, open] = /connected_clients:(\d+)/.exec(await admin!.info("clients")) ?? [];
      return { given: Number(given), open: Number(open) };
    };
    const before = await connections();
    old.subscribe?.(() => {});
    await eventually(async () => expect((await connections()).given).toBeGreaterThan(before.given + 2));
    expect((await connections()).open).toBeLessThanOrEqual(before.open + 1);
    await old.close();
  });

  test("of a later version can be used, even with additional fields and keys", async () => {
    const open = () => redisStore({ url: own!.url, prefix: "newer", logger: silent });
    const first = open();
    const event = eventOf();
    await first.add(event);
    await first.close();
    await admin!.hset("{newer}:meta", "schema", "3", "extra", "1");
    await admin!.hset(`{newer}:event:${event.eventId}`, "extra", "1");
    await admin!.zadd("{newer}:extra", 1, event.eventId);
    const newer = open();
    expect(await newer.add(eventOf())).toBe("added");
    const [claim] = await newer.claim(CLAIM);
    expect(claim).toMatchObject(event);
    expect(await newer.settle(claim!, DONE)).toBe(true);
    expect(await newer.get(event.eventId)).toMatchObject({ ...event, state: "done" });
    expect(await admin!.hget("{newer}:meta", "schema")).toBe("3");
    await newer.close();
  });

  test("that are missing make each call reject, and nothing is written", async () => {
    const gone = redisStore({ url: own!.url, prefix: "gone", logger: silent });
    const event = eventOf();
    await gone.add(event);
    await admin!.rename("{gone}:meta", "{gone}:moved");
    for (const call of [() => gone.add(eventOf()), () => gone.claim(CLAIM), () => gone.counts()])
      await expect(call()).rejects.toThrow(/keys of this store are gone.*cluster/);
    expect(await admin!.exists("{gone}:meta")).toBe(0);
    await admin!.rename("{gone}:moved", "{gone}:meta");
    expect(await gone.add(event)).toBe("duplicate");
    expect(await gone.counts()).toMatchObject({ pending: 1 });
    await gone.close();
  });

  test("of a small done event use the compact listpack encoding", async () => {
    const event = eventOf("booking:HM12345678");
    const notification = JSON.stringify({
      eventId: event.eventId,
      bookingCode: "HM12345678",
      listingId: null,
    });
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await store!.add({ ...event, notification, traceparent });
    // The worker name is as long as the host name of a pod may be.
    const [claim] = await store!.claim({
      ...CLAIM,
      worker: `${"stayhook-worker-7d9f8b6c5d-x2x9k".padEnd(55, "x")}:12345`,
    });
    await store!.settle(claim!, { ...DONE, entry: { duration: 123_456 } });
    // A listpack takes a quarter of the memory of a hash table.
    expect(await admin!.object("ENCODING", `{keys}:event:${event.eventId}`)).toBe("listpack");
  });
});

describe.skipIf(own === undefined)("the cost of a call", () => {
  /** Counts how often Redis ran each command during `run`. */
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

  test("does not grow with the number of waiting or kept events", async () => {
    // Settle events that earlier tests left, because they would count.
    for (const claim of await store!.claim(CLAIM)) await store!.settle(claim, DONE);
    const add = async () => void (await store!.add(eventOf("booking:hot")));
    const [added, spent] = [await commandsOf(add), await commandsOf(once)];
    await Promise.all(Array.from({ length: 3000 }, add));
    for (let index = 0; index < 200; index += 1) await once();
    const addedLater = await commandsOf(add);
    const spentLater = await commandsOf(once);
    // Allow a small difference, because the lock of the hot record already exists now.
    const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);
    expect(sum(addedLater)).toBeLessThanOrEqual(sum(added) + 2);
    expect(sum(spentLater)).toBeLessThanOrEqual(sum(spent) + 8);
    // Allow only commands that do not scan all events. The store reads sorted sets with a limit.
    for (const name of Object.keys({ ...addedLater, ...spentLater })) {
      expect([
        "hget",
        "hmget",
        "hgetall",
        "spop",
        "get",
        "set",
        "hexists",
        "hset",
        "hdel",
        "hincrby",
        "del",
        "exists",
        "time",
        "publish",
        "zadd",
        "zrem",
        "zscore",
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
  });

  test("stays small for snapshots, lists and replay, which work in batches", async () => {
    const store = redisStore({ url: own!.url, prefix: "pieces", logger: silent });
    const events = Array.from({ length: 450 }, (_, index) => eventOf(`booking:${index}`));
    await Promise.all(events.map((event) => store.add(event)));
    for (;;) {
      const claims = await store.claim({ limit: 300, leaseDuration: 60_000 });
      if (claims.length === 0) break;
      await Promise.all(claims.map((claim) => store.settle(claim, PARKED)));
    }
    const scripts = async (run: () => Promise<unknown>) => {
      await admin!.config("RESETSTAT");
      const result = await run();
      return [result, Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin!.info("commandstats"))?.[1])];
    };
    expect(await store.replay({ state: "parked", reason: "callback" })).toBe(0);
    // Each batch is looked up, loaded and written.
    expect(await scripts(() => store.replay({ state: "parked" }))).toEqual([450, 6]);
    for (;;) {
      const claims = await store.claim({ limit: 300, leaseDuration: 60_000 });
      if (claims.length === 0) break;
      await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    }
    const collect = async () => {
      const refs = new Set<string>();
      for await (const { ref } of store.snapshots()) refs.add(ref);
      return refs.size;
    };
    const [records, pages] = await scripts(collect);
    expect([records, pages]).toEqual([450, 1]);
    expect((await store.list({ limit: 1000 })).length).toBe(450);
    expect(await store.prune({ state: "done", age: 0, limit: 450 })).toBe(450);
    // One look-up, and three steps of 100 snapshots at most, which are loaded and written.
    expect(await scripts(() => store.pruneSnapshots({ age: 0, limit: 250 }))).toEqual([250, 7]);
    await store.close();
  });
});
