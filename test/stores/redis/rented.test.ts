import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type RedisStoreOptions, redisStore } from "../../../src/stores/redis/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { freePort, installed } from "../../support/server-process.ts";
import { CLAIM, DONE, eventOf, silent } from "../event.ts";
import { createProxy } from "../every/proxy.ts";

async function started(...args: readonly string[]) {
  const server = (await startOwnRedis({ args }))!;
  onTestFinished(() => server.close());
  return server.url;
}

function open(options: RedisStoreOptions) {
  const store = redisStore({ logger: silent, ...options });
  onTestFinished(() => store.close());
  return store as typeof store & { problems(): Promise<{ fails: boolean; detail: string }[]> };
}

function clientOf(url: string, options: Omit<RedisOptions, "replyMapping"> = {}): Redis {
  const client = new Redis(url, options);
  client.on("error", silent);
  onTestFinished(() => client.disconnect());
  return client;
}

describe.skipIf(installed(["redis-server"]) === undefined)("a server without INFO and CONFIG", () => {
  const hidden = ["--rename-command", "INFO", "", "--rename-command", "CONFIG", ""];

  test("works, and doctor says that its settings cannot be read", async () => {
    const store = open({ url: await started(...hidden) });
    expect(await store.add(eventOf())).toBe("added");
    for (const claim of await store.claim(CLAIM)) expect(await store.settle(claim, DONE)).toBe(true);
    expect(await store.problems()).toEqual([
      { fails: false, detail: expect.stringContaining("The settings of Redis could not be read") },
    ]);
  });

  test("a ready check, of a client or with a database number, is an error that says what to do", async () => {
    const url = await started(...hidden);
    for (const options of [{ url: `${url}/1` }, { client: clientOf(url, { enableReadyCheck: true }) }]) {
      const store = open({ ...options, commandTimeout: 2000 });
      await expect(store.add(eventOf())).rejects.toThrow(/no command INFO.*enableReadyCheck.*database 0/);
    }
    const store = open({ client: clientOf(url, { enableReadyCheck: false }) });
    expect(await store.add(eventOf())).toBe("added");
  });
});

test.skipIf(installed(["redis-server"]) === undefined)(
  "a plain client of a cluster's node is an error at a node without the keys, and a warning at the node with them",
  async () => {
    const args = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
    const nodes = [await started(...args), await started(...args)];
    const [first, second] = nodes.map((url) => clientOf(url)) as [Redis, Redis];
    await first.call("CLUSTER", "ADDSLOTSRANGE", "0", "8191");
    await second.call("CLUSTER", "ADDSLOTSRANGE", "8192", "16383");
    await first.call("CLUSTER", "MEET", "127.0.0.1", new URL(nodes[1]!).port);
    for (const node of [first, second])
      await eventually(async () =>
        expect(String(await node.call("CLUSTER", "INFO"))).toContain("cluster_state:ok"),
      );
    const slot = Number(await first.call("CLUSTER", "KEYSLOT", "{stayhook}"));
    const [right, wrong] = slot < 8192 ? nodes : nodes.toReversed();
    await expect(open({ url: wrong! }).add(eventOf())).rejects.toThrow(
      /node of a Redis cluster.* Cluster of ioredis as the option client \(MOVED/,
    );
    const store = open({ url: right! });
    expect(await store.add(eventOf())).toBe("added");
    const detail = expect.stringContaining("Pass a Cluster of ioredis as the option client.");
    expect(await store.problems()).toContainEqual({ fails: false, detail });
    const { hostname: host, port } = new URL(wrong!);
    const client = new Cluster([{ host, port: Number(port) }]);
    onTestFinished(() => client.disconnect());
    const whole = open({ client });
    expect(await whole.counts()).toMatchObject({ pending: 1 });
    expect(await whole.problems()).not.toContainEqual({ fails: false, detail });
  },
);

describe.skipIf(installed(["redis-server"]) === undefined)(
  "a server that a script of somebody else blocks",
  () => {
    const block = (client: Redis, ms: number) =>
      client.eval(
        "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end local till = now() + ARGV[1] repeat until now() > till",
        0,
        ms,
      );

    test("calls wait until it is free, at most for their time", async () => {
      const url = await started("--busy-reply-threshold", "20");
      const store = open({ url });
      await store.add(eventOf("booking:A"));
      const brief = open({ url, commandTimeout: 1500 });
      await brief.counts();
      const blocked = block(clientOf(url), 4000);
      const refusing = clientOf(url);
      await eventually(() => expect(refusing.get("a")).rejects.toThrow("BUSY"));
      const calls = Array.from({ length: 10 }, () => store.add(eventOf("booking:A")));
      await expect(brief.counts()).rejects.toThrow(/another client's script blocks Redis|within 1500 ms/);
      expect(await Promise.all(calls)).toEqual(Array(10).fill("added"));
      await blocked;
      expect(await brief.counts()).toMatchObject({ pending: 11 });
    });
  },
);

describe.skipIf(installed(["openssl"]) === undefined || installed(["redis-server"]) === undefined)(
  "a URL or a client with the wrong scheme",
  () => {
    test("says that the port speaks TLS, or does not", async () => {
      const directory = mkdtempSync(join(tmpdir(), "stayhook-tls-"));
      onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
      const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
      const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
      const asked = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...subject];
      execFileSync("openssl", [...asked, "-keyout", key, "-out", cert], { stdio: "ignore" });
      const port = String(await freePort());
      const files = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert];
      const url = await started("--tls-port", port, "--tls-auth-clients", "no", ...files);
      const commandTimeout = 1500;
      const toPlain = open({ url: url.replace("redis:", "rediss:"), commandTimeout });
      await expect(toPlain.add(eventOf())).rejects.toThrow(
        /speaks no TLS at this port, begin the URL with redis:\/\//,
      );
      const toTls = open({ url: `redis://127.0.0.1:${port}`, commandTimeout });
      await expect(toTls.add(eventOf())).rejects.toThrow(
        /speaks TLS at this port, begin the URL with rediss:\/\//,
      );
      const unencrypted = clientOf(`redis://127.0.0.1:${port}`);
      await expect(open({ client: unencrypted, commandTimeout }).add(eventOf())).rejects.toThrow(
        /speaks TLS at this port, .* or set tls in your client/,
      );
      const encrypted = clientOf(url, { tls: { rejectUnauthorized: false } });
      await expect(open({ client: encrypted, commandTimeout }).add(eventOf())).rejects.toThrow(
        /speaks no TLS at this port, .* or leave out tls in your client/,
      );
      const client = clientOf(`rediss://127.0.0.1:${port}`, { tls: { rejectUnauthorized: false } });
      expect(await open({ client }).add(eventOf())).toBe("added");
    });
  },
);

test("a server that runs only scripts with declared keys is told, with the flag of Dragonfly", async () => {
  const server = createServer((socket) => {
    socket.on("error", silent);
    socket.on("data", (data) => {
      const commands = String(data).match(/^\*\d+/gm) ?? [];
      for (const _ of commands) socket.write("-ERR script tried accessing undeclared key\r\n");
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const client = clientOf(`redis://127.0.0.1:${port}`, { enableReadyCheck: false, protocol: 2 });
  await expect(open({ client, commandTimeout: 2000 }).add(eventOf())).rejects.toThrow(
    /declare their keys.*--default_lua_flags=allow-undeclared-keys/,
  );
});

describe.skipIf(installed(["redis-server"]) === undefined)("a call whose connection is lost", () => {
  test("is sent again by ioredis, and does what one call does", async () => {
    const url = await started();
    const proxy = await createProxy(url);
    const store = open({ url: proxy.url });
    // Loads the scripts, so that the first answer to each call is its result.
    const warm = open({ url, prefix: "warm" });
    await warm.add(eventOf());
    const warmed = await warm.renew(await warm.claim(CLAIM), 60_000);
    await warm.settle(warmed[0]!, DONE);
    await warm.replay({ state: "done" });
    await warm.setMeta("a", "1", { expected: undefined });
    await store.nextDue();
    const losing = async <T>(call: () => Promise<T>, nth = 1) => {
      const { lost } = proxy.loseAnswer(nth);
      const calling = call().catch((error: Error) => error);
      expect(await lost).toBe(true);
      return calling;
    };
    const [event, other] = [eventOf("booking:A"), eventOf("booking:B")];
    expect(await losing(() => store.add(event))).toBe("added");
    expect(await losing(() => store.add(other))).toBe("added");
    expect(await store.counts()).toMatchObject({ pending: 2 });
    // Both runs of the claim have leased a record. The store gives both back.
    expect(await losing(() => store.claim({ ...CLAIM, limit: 1 }))).toMatchObject({
      message: expect.stringContaining("may have run the call twice"),
    });
    const claims = await store.claim(CLAIM);
    expect(claims.map(({ attempts }) => attempts)).toEqual([1, 1]);
    expect(new Set(claims.map(({ lease }) => lease)).size).toBe(2);
    expect(await losing(() => store.renew(claims, 60_000))).toEqual(claims);
    expect(await losing(() => store.settle(claims[0]!, DONE))).toBe(true);
    expect(await losing(() => store.replay({ state: "done" }), 2)).toBeInstanceOf(Error);
    expect(await losing(() => store.setMeta("a", "1", { expected: undefined }))).toBeInstanceOf(Error);
    expect((await store.getMeta("a"))?.value).toBe("1");
    expect(await store.counts()).toMatchObject({ pending: 1, processing: 1, done: 0 });
  });

  test("and whose time ends before ioredis can send it again: it runs later, once, and wakes subscribers", async () => {
    const proxy = await createProxy(await started());
    const store = open({ url: proxy.url, commandTimeout: 1500 });
    const woken = vi.fn();
    store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    await store.counts();
    proxy.hang();
    await expect(store.add(eventOf())).rejects.toThrow("within 1500 ms");
    await expect(store.claim(CLAIM)).rejects.toThrow("within 1500 ms");
    woken.mockClear();
    proxy.restore();
    await eventually(async () => {
      const { pending, processing } = await store.counts();
      expect(pending + processing).toBe(1);
    });
    await eventually(() => expect(woken).toHaveBeenCalled());
    const claims = await eventually(async () => {
      const found = await store.claim(CLAIM);
      expect(found).not.toEqual([]);
      return found;
    });
    expect(claims.map(({ attempts }) => attempts)).toEqual([1]);
  });
});
