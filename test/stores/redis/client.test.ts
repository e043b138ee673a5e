import { randomUUID } from "node:crypto";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { CLAIM, DONE, eventOf, silent } from "../event.ts";
import { createProxy } from "../every/proxy.ts";

const own = await startOwnRedis({
  args: ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"],
});
const plain = await startOwnRedis();
const admin = own && new Redis(own.url);
await admin?.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
afterAll(async () => {
  admin?.disconnect();
  await own?.close();
  await plain?.close();
});
const logger = silent;

test.skipIf(plain === undefined)("an unknown database number is an error", async () => {
  const store = redisStore({ url: `${plain!.url}/99`, prefix: "elsewhere", logger });
  onTestFinished(() => store.close());
  await expect(store.add(eventOf())).rejects.toThrow(/DB index is out of range/);
  const client = new Redis(plain!.url);
  onTestFinished(() => client.disconnect());
  expect(await client.keys("{elsewhere}*")).toEqual([]);
});

describe.skipIf(plain === undefined)("the user's own client", () => {
  function clientOf(options: Omit<RedisOptions, "replyMapping"> = {}, url = plain!.url): Redis {
    const client = new Redis(url, options);
    onTestFinished(() => client.disconnect());
    return client;
  }

  test("gets a new connection if the old one falls silent", async () => {
    const proxy = await createProxy(plain!.url);
    const client = clientOf({}, proxy.url);
    client.on("error", () => {});
    const store = redisStore({ client, prefix: randomUUID(), commandTimeout: 1000, logger });
    onTestFinished(() => store.close());
    expect(await store.add(eventOf())).toBe("added");
    // A firewall has forgotten the connection. New connections work.
    proxy.stall();
    await expect(store.counts()).rejects.toThrow("did not answer within 1000 ms");
    await eventually(async () => expect(await store.add(eventOf())).toBe("added"));
  });

  test("keeps its listeners, and stays open", async () => {
    const client = clientOf();
    const listeners = () => client.eventNames().map((name) => [name, client.listenerCount(name)]);
    await client.ping();
    const before = listeners();
    const store = redisStore({ client, prefix: randomUUID(), logger });
    const many = Array.from({ length: 40 }, () => store.add(eventOf()));
    expect(client.listenerCount("close")).toBeLessThan(10);
    await Promise.all(many);
    store.subscribe?.(() => {});
    await store.close();
    await store.close();
    expect(listeners()).toEqual(before);
    expect(await client.ping()).toBe("PONG");
  });

  test("is connected by the first call if it is lazy", async () => {
    const client = clientOf({ lazyConnect: true });
    const store = redisStore({ client, prefix: randomUUID(), logger });
    expect(client.status).toBe("wait");
    expect(await Promise.all([store.add(eventOf()), store.add(eventOf())])).toEqual(["added", "added"]);
    await store.close();
  });

  test("is not opened again after it was closed", async () => {
    const client = clientOf();
    await client.ping();
    client.disconnect();
    await eventually(() => expect(client.status).toBe("end"));
    const store = redisStore({ client, prefix: randomUUID(), logger });
    await expect(store.counts()).rejects.toThrow(/the given client.*the client was closed/);
    expect(client.status).toBe("end");
    await store.close();
  });

  test("may reconnect after its socket broke, and calls wait for it", async () => {
    const client = clientOf({ enableOfflineQueue: false, lazyConnect: true });
    const store = redisStore({ client, prefix: randomUUID(), logger });
    await store.add(eventOf());
    client.stream.destroy();
    expect(client.status).toBe("ready");
    expect(await store.counts()).toMatchObject({ pending: 1 });
    await store.close();
  });

  test("keeps its keyPrefix, also in notifications", async () => {
    const prefix = randomUUID();
    const [one, other] = ["app:", "app:"].map((keyPrefix) =>
      redisStore({ client: clientOf({ keyPrefix }), prefix, logger }),
    );
    const woken = vi.fn();
    other!.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    woken.mockClear();
    await one!.add(eventOf());
    await eventually(() => expect(woken).toHaveBeenCalled());
    const [claim] = await other!.claim(CLAIM);
    expect(await one!.settle(claim!, DONE)).toBe(true);
    const keys = await clientOf().keys("*");
    expect(keys.filter((key) => key.includes(prefix)).length).toBeGreaterThan(3);
    for (const key of keys.filter((each) => each.includes(prefix))) expect(key).toMatch(`app:{${prefix}}:`);
    await one!.close();
    await other!.close();
  });

  test("may return numbers as strings", async () => {
    const client = clientOf({ stringNumbers: true });
    const store = redisStore({ client, prefix: randomUUID(), logger });
    await store.add(eventOf());
    const claims = await store.claim(CLAIM);
    expect(await store.renew(claims, 60_000)).toEqual(claims);
    expect(await store.nextDue()).toEqual(expect.any(Number));
    expect(await store.settle(claims[0]!, DONE)).toBe(true);
    expect(await store.list({ limit: 1 })).toMatchObject([{ state: "done" }]);
    await store.close();
  });

  test("may resend commands: settle counts once, and no event is claimed twice", async () => {
    const proxy = await createProxy(plain!.url);
    const client = clientOf({ autoResendUnfulfilledCommands: true, retryStrategy: () => 1 }, proxy.url);
    client.on("error", () => {});
    const store = redisStore({ client, prefix: randomUUID(), logger });
    for (const event of [eventOf(), eventOf("booking:B")]) await store.add(event);
    const [claim] = await store.claim({ ...CLAIM, limit: 1 });
    await store.settle({ ...claim!, lease: "none" }, DONE);
    let { lost } = proxy.loseAnswer(1);
    const settling = store.settle(claim!, DONE);
    await lost;
    expect(await settling).toBe(true);
    expect(await store.settle(claim!, DONE)).toBe(true);
    ({ lost } = proxy.loseAnswer(1));
    const claiming = store.claim(CLAIM).catch(() => "lost");
    await lost;
    expect(await claiming).toBe("lost");
    const claims = await store.claim(CLAIM);
    expect(claims.map(({ attempts }) => attempts)).toEqual([1]);
    await store.close();
  });
});

describe.skipIf(own === undefined)("a Cluster", () => {
  test("has all keys in one slot, notifies subscribers, and stays open", async () => {
    // A new cluster needs some time before it accepts writes.
    const state = async () => String(await admin!.call("CLUSTER", "INFO"));
    await eventually(async () => expect(await state()).toContain("cluster_state:ok"));
    const { hostname, port } = new URL(own!.url);
    const cluster = new Cluster([{ host: hostname, port: Number(port) }], { keyPrefix: "app:" });
    onTestFinished(() => cluster.disconnect());
    const store = redisStore({ client: cluster, logger });
    const other = redisStore({ client: cluster, logger });
    const woken = vi.fn();
    other.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    await new Promise((resolve) => setTimeout(resolve, 100));
    woken.mockClear();
    for (const ref of [null, "booking:A", "listing:{1}"]) await store.add(eventOf(ref));
    await eventually(() => expect(woken).toHaveBeenCalled());
    for (const claim of await other.claim(CLAIM)) expect(await store.settle(claim, DONE)).toBe(true);
    expect(await store.counts()).toMatchObject({ done: 3 });
    const slots = (await admin!.keys("*")).map((key) => admin!.call("CLUSTER", "KEYSLOT", key));
    expect(new Set(await Promise.all(slots)).size).toBe(1);
    await store.close();
    await other.close();
    expect(await cluster.ping()).toBe("PONG");
  });
});
