import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnRedis, startSentinel } from "../../support/redis-server.ts";
import { eventOf, silent } from "../event.ts";

const primary = await startOwnRedis();

test.skipIf(primary === undefined)(
  "a store with Sentinel goes on with the new primary after the old one froze",
  async () => {
    const open: (() => unknown)[] = [];
    // The clients end before the servers, so that none of them tries to connect again.
    onTestFinished(async () => {
      for (const close of open.toReversed()) await close();
    });
    const { hostname, port } = new URL(primary!.url);
    open.push(() => primary!.close());
    const replica = await startOwnRedis({ args: ["--replicaof", hostname, port] });
    open.push(() => replica!.close());
    const sentinel = await startSentinel(primary!.url);
    open.push(() => sentinel!.close());

    const asking = new Redis(sentinel!.url);
    open.push(() => asking.disconnect());
    const replicas = () => asking.call("SENTINEL", "REPLICAS", "main").then(String);
    await eventually(async () => expect(await replicas()).toContain("master-link-status,ok"));

    const { hostname: host, port: sentinelPort } = new URL(sentinel!.url);
    const client = new Redis({ sentinels: [{ host, port: Number(sentinelPort) }], name: "main" });
    client.on("error", silent);
    open.push(() => client.disconnect());
    const store = redisStore({ client, prefix: "frozen", commandTimeout: 1000, logger: silent });
    open.push(() => store.close());
    await store.add(eventOf("booking:A"));

    process.kill(primary!.pid, "SIGSTOP");
    await expect(store.add(eventOf("booking:B"))).rejects.toThrow("within 1000 ms");
    // Each try takes up to a second. The failover itself takes about three.
    let answer: string | undefined;
    for (let tries = 0; answer === undefined && tries < 30; tries += 1)
      answer = await store.add(eventOf("booking:C")).catch(() => undefined);
    expect(answer).toBe("added");
    expect(String(client.stream && (client.stream as { remotePort?: number }).remotePort)).toBe(
      new URL(replica!.url).port,
    );
  },
);
