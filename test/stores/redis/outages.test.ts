import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { inspect } from "node:util";
import { Redis } from "ioredis";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { StayhookError } from "../../../src/errors.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { type RedisStoreOptions, redisStore } from "../../../src/stores/redis/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { CLAIM, DONE, eventOf, RETRY, silent } from "../event.ts";
import { createProxy } from "../every/proxy.ts";
import { startProcess } from "../processes.ts";

const own = await startOwnRedis();
afterAll(() => own?.close());
const url = own?.url ?? "";

let stores = 0;
function open(options: RedisStoreOptions): EventStore {
  stores += 1;
  const store = redisStore({ prefix: `outages-${stores}`, logger: silent, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** Returns the error of a promise that must reject. */
async function errorOf(promise: Promise<unknown>): Promise<Error> {
  const error = await promise.then(
    (value) => expect.fail(`expected an error, got ${inspect(value)}`),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(StayhookError);
  return error as Error;
}

describe.skipIf(own === undefined)("the Redis server", () => {
  test("loses no event in a kill and restart, and gets its scripts again", async () => {
    const store = open({ url, commandTimeout: 20_000 });
    const events = Array.from({ length: 50 }, (_, index) => eventOf(`booking:${index % 20}`));
    await Promise.all(events.map((event) => store.add(event)));
    const claims = await store.claim({ limit: 5, leaseDuration: 60_000 });
    expect(await store.settle(claims[0]!, DONE)).toBe(true);
    await own!.kill();
    // The call waits for Redis until its timeout.
    const counts = store.counts();
    await own!.start();
    expect(await counts).toMatchObject({ pending: 45, processing: 4, retrying: 0, done: 1, parked: 0 });
    expect(await store.add(events[0]!)).toBe("duplicate");
    expect(await store.settle(claims[1]!, DONE)).toBe(true);
    expect(await store.settle(claims[0]!, DONE)).toBe(true);
  });

  test("makes calls reject in time while it is frozen, and calls work again afterwards", async () => {
    const commandTimeout = 1500;
    const store = open({ url, commandTimeout });
    const woken = vi.fn();
    store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    await store.add(eventOf());
    process.kill(own!.pid, "SIGSTOP");
    try {
      const calls = [store.add(eventOf("booking:B")), store.counts(), store.claim(CLAIM)];
      // The first call that times out closes the connection of all calls.
      for (const { message } of await Promise.all(calls.map(errorOf)))
        expect(message).toMatch(/within 1500 ms|the connection was lost before the answer/);
      // The store has given up that connection, and cannot make a new one.
      expect((await errorOf(store.counts())).message).toContain("within 1500 ms");
      woken.mockClear();
    } finally {
      process.kill(own!.pid, "SIGCONT");
    }
    await eventually(async () => {
      const { pending, processing } = await store.counts();
      expect(pending + processing).toBe(2);
    });
    // Redis ran the calls after SIGCONT, although they had timed out. Subscribers must hear of the new events.
    await eventually(() => expect(woken).toHaveBeenCalled());
  });

  test("close does not wait for a frozen server", async () => {
    const store = open({ url, commandTimeout: 1500 });
    await store.counts();
    process.kill(own!.pid, "SIGSTOP");
    try {
      const calls = errorOf(store.counts());
      await store.close();
      await calls;
    } finally {
      process.kill(own!.pid, "SIGCONT");
    }
  });

  test("with full memory, rejects add, and allows claim, renew, settle and prune", async () => {
    const store = open({ url });
    const [event, later] = [eventOf("booking:A"), eventOf("booking:B")];
    await store.add(event);
    await store.add(later);
    const [claim, other] = await store.claim(CLAIM);
    const admin = new Redis(url);
    await admin.config("SET", "maxmemory", "1");
    try {
      expect((await errorOf(store.add(eventOf()))).message).toMatch(/memory is full/);
      expect(await store.renew([claim!], 60_000)).toEqual([claim]);
      expect(await store.settle(claim!, DONE)).toBe(true);
      expect(await store.settle(other!, { state: "released" })).toBe(true);
      const [again] = await store.claim(CLAIM);
      expect(await store.settle(again!, RETRY)).toBe(true);
      const [retried] = await store.claim(CLAIM);
      expect(await store.settle(retried!, DONE)).toBe(true);
      // A store that starts while the memory is full can prune, too.
      const started = redisStore({ url, prefix: `outages-${stores}`, logger: silent });
      expect(await started.prune({ state: "done", age: 0, limit: 10 })).toBe(2);
      expect(await started.pruneSnapshots({ age: 0, limit: 10 })).toBe(2);
      await started.close();
    } finally {
      await admin.config("SET", "maxmemory", "0");
      admin.disconnect();
    }
    expect(await store.add(eventOf())).toBe("added");
  });

  test("if no server listens, calls reject in time, with the reason", async () => {
    const store = open({ url: "redis://user:hush-hush@127.0.0.1:1/3", commandTimeout: 250 });
    const error = await errorOf(store.add(eventOf()));
    expect(error.message).toMatch(/redisStore \(127\.0\.0\.1:1\): .* within 250 ms: connect ECONNREFUSED/);
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("hush");
    expect(inspect(store, { depth: 10, showHidden: true })).not.toContain("hush");
  });
});

describe.skipIf(own === undefined)("a failover", () => {
  test.each([
    ["a replica", ["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]],
    [
      "a replica without its primary",
      ["CONFIG", "SET", "replica-serve-stale-data", "no"],
      ["CONFIG", "SET", "replica-serve-stale-data", "yes"],
    ],
  ])("that makes the server %s makes the store drop all its sessions", async (_, demote, promote) => {
    const proxy = await createProxy(url);
    const store = open({ url: proxy.url });
    const woken = vi.fn();
    store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    await store.add(eventOf());
    expect(proxy.connections).toBe(2);
    const admin = new Redis(url);
    const call = ([name = "", ...args]: readonly string[]) => admin.call(name, ...args);
    woken.mockClear();
    await call(["REPLICAOF", "127.0.0.1", "1"]);
    await call(demote);
    try {
      await errorOf(store.add(eventOf()));
    } finally {
      await call(promote);
      await call(["REPLICAOF", "NO", "ONE"]);
      admin.disconnect();
    }
    // The same address now leads to the new primary.
    expect(await store.add(eventOf())).toBe("added");
    await eventually(() => expect(woken).toHaveBeenCalled());
    await eventually(() => expect(proxy.connections).toBe(4));
  });

  test.each(["url", "client"])(
    "to a server without the store's keys rejects one call, and then starts empty (%s)",
    async (by) => {
      const empty = await startOwnRedis({ args: ["--appendonly", "no"] });
      onTestFinished(() => empty?.close());
      const client = new Redis(empty!.url, { lazyConnect: true, retryStrategy: () => 50 });
      client.on("error", () => {});
      onTestFinished(() => client.disconnect());
      const store = open(by === "url" ? { url: empty!.url } : { client });
      await store.add(eventOf());
      await empty!.kill();
      await empty!.start();
      expect((await errorOf(store.add(eventOf()))).message).toMatch(/keys of this store are gone/);
      expect(await store.add(eventOf())).toBe("added");
      expect(await store.counts()).toMatchObject({ pending: 1 });
    },
  );
});

test.skipIf(own === undefined)("after FLUSHALL, calls reject until a process is restarted", async () => {
  const flushed = await startOwnRedis();
  onTestFinished(() => flushed?.close());
  const store = open({ url: flushed!.url, prefix: "flushed" });
  const event = eventOf();
  await store.add(event);
  const [claim] = await store.claim(CLAIM);
  const admin = new Redis(flushed!.url);
  onTestFinished(() => admin.disconnect());
  await admin.flushall();
  for (const call of [() => store.add(eventOf()), () => store.settle(claim!, DONE), () => store.counts()])
    expect((await errorOf(call())).message).toMatch(/keys of this store are gone/);
  expect(await admin.dbsize()).toBe(0);
  const restarted = open({ url: flushed!.url, prefix: "flushed" });
  expect(await restarted.add(event)).toBe("added");
  expect(await store.settle(claim!, DONE)).toBe(false);
  expect(await store.counts()).toMatchObject({ pending: 1, processing: 0, done: 0 });
});

describe.skipIf(own === undefined)("a lost connection", () => {
  test("that only stops answering is closed after one call", async () => {
    const proxy = await createProxy(url);
    const store = open({ url: proxy.url, commandTimeout: 1000 });
    await store.add(eventOf());
    proxy.stall();
    expect((await errorOf(store.counts())).message).toContain("did not answer within 1000 ms");
    expect(await store.counts()).toMatchObject({ pending: 1 });
    expect(proxy.connections).toBe(2);
  });

  test("is replaced by a slow connection, which calls that are older than it do not close", async () => {
    const proxy = await createProxy(url);
    const store = open({ url: proxy.url, commandTimeout: 600 });
    await store.counts();
    const outcomes: string[] = [];
    const calling = setInterval(() => {
      store.counts().then(
        () => outcomes.push("answered"),
        () => outcomes.push("failed"),
      );
    }, 20);
    try {
      // A call starts every 20 ms. While no answer arrives, some call is always about to time out.
      proxy.delay = Number.POSITIVE_INFINITY;
      await eventually(() => expect(outcomes.length).toBeGreaterThan(20));
      expect(outcomes).not.toContain("answered");
      proxy.delay = 60;
      await eventually(() => expect(outcomes).toContain("answered"));
    } finally {
      clearInterval(calling);
    }
    await eventually(async () => expect(await store.counts()).toMatchObject({ pending: 0 }));
  });

  test("an add whose answer was lost wakes subscribers", async () => {
    const proxy = await createProxy(url);
    const store = open({ url: proxy.url });
    const woken = vi.fn();
    store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    await store.counts();
    woken.mockClear();
    const { lost } = proxy.loseAnswer(1);
    const call = store.add(eventOf());
    await lost;
    // The store sends the add once more.
    expect(await call).toBe("added");
    await eventually(() => expect(woken).toHaveBeenCalled());
  });

  test("does not keep a process alive whose server is out of reach", async () => {
    const child = startProcess(join(import.meta.dirname, "idle.ts"), { url: "redis://127.0.0.1:1" });
    const { code, output } = await child.ended;
    expect(output).toContain("could not be reached within 1000 ms");
    expect(output).not.toContain("holds it open");
    expect(code).toBe(0);
  });
});

describe("a password", () => {
  test("is not shown if the server repeats it", async () => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", () => {
        socket.write("-ERR what is hush/hush, with args beginning with: 'hush/hush'\r\n".repeat(8));
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const store = open({ url: `redis://:hush%2Fhush@127.0.0.1:${port}`, commandTimeout: 10_000 });
    const error = await errorOf(store.add(eventOf()));
    expect(error.message).toContain("ERR what is ***");
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("hush");
  });

  test("that is wrong causes an error at once, and is never shown", async () => {
    const guarded = await startOwnRedis({ args: ["--requirepass", "right-one"] });
    if (guarded === undefined) return;
    onTestFinished(() => guarded.close());
    const wrong = guarded.url.replace("right-one", "wrong%2Fone");
    for (const [bad, told] of [
      [wrong, "refuses the user name or the password"],
      [guarded.url.replace(":right-one@", ""), "asks for a password"],
    ] as const) {
      const store = open({ url: bad, commandTimeout: 60_000 });
      const error = await errorOf(store.add(eventOf()));
      expect(error.message).toContain(told);
      const shown = inspect(error, { depth: 10, showHidden: true }) + JSON.stringify(error);
      expect(shown).not.toMatch(/wrong.{1,3}one/);
    }
    const store = open({ url: guarded.url });
    expect(await store.add(eventOf())).toBe("added");
  });
});
