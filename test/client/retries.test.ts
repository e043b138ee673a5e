import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import { retryAfterMs } from "../../src/client/client-errors.ts";
import type { ClientOptions } from "../../src/client/client-options.ts";
import { accessToken, clientOf, fakeFetch, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: {} };
const ok = () => Response.json(booking);
const status = (code: number, headers: Record<string, string> = {}) =>
  new Response(null, { status: code, headers });
const broken = new TypeError("fetch failed");

beforeEach(() => void vi.useFakeTimers({ now: new Date("2026-05-04T00:00:00Z") }));
afterEach(() => void vi.useRealTimers());

const clientWith = (answers: Parameters<typeof fakeFetch>[0], options: Partial<ClientOptions> = {}) => {
  const { calls, fetch } = fakeFetch(answers);
  const times: number[] = [];
  const timed = (url: string, init: RequestInit) => {
    times.push(Date.now());
    return fetch(url, init);
  };
  const client = new StayhookClient({ baseUrl: "https://h.example", accessToken, fetch: timed, ...options });
  return { client, calls, times };
};

/** Runs timers until the promise settles. */
const settled = async <T>(promise: Promise<T>): Promise<T> => {
  promise.catch(() => {});
  await vi.runAllTimersAsync();
  return promise;
};

type Act = (client: StayhookClient) => Promise<unknown>;
const repeatable: [string, Act][] = [
  ["GET", (client) => client.bookings.get("A")],
  ["PUT", (client) => client.webhookConfig.update(config)],
  ["DELETE", (client) => client.webhookConfig.delete()],
  ["toggle", (client) => client.webhookConfig.toggle(true)],
  ["request GET", (client) => client.request("GET", "/x")],
  ["request PUT", (client) => client.request("PUT", "/x", { body: 1 })],
];
const unrepeatable: [string, Act][] = [
  ["create", (client) => client.webhookConfig.create(config)],
  ["request POST", (client) => client.request("POST", "/x", { body: 1 })],
  ["request PATCH", (client) => client.request("PATCH", "/x", { body: 1 })],
];

describe.each(repeatable)("%s", (name, act) => {
  it.each([408, 429, 500, 501, 502, 503, 504, 599])("is tried again on %i", async (code) => {
    const { client, calls } = clientWith([status(code), ok()]);
    await settled(act(client));
    expect(calls).toHaveLength(2);
  });

  it("is tried again on network errors, and sends the same", async () => {
    const { client, calls } = clientWith([broken, ok()]);
    await settled(act(client));
    expect(calls.map(({ url, init }) => [url, init.method, init.body])).toEqual([
      [calls[0]?.url, calls[0]?.init.method, calls[0]?.init.body],
      [calls[0]?.url, calls[0]?.init.method, calls[0]?.init.body],
    ]);
  });

  it.each([400, 401, 403, 404, 409, 410, 413, 422])("is not tried again on %i", async (code) => {
    const { client, calls } = clientWith([status(code)]);
    if (name === "DELETE" && (code === 404 || code === 410))
      expect(await settled(act(client))).toBeUndefined();
    else expect(await rejection(settled(act(client)))).toMatchObject({ status: code });
    expect(calls).toHaveLength(1);
  });

  it("gives up after maxRetries, 2 by default", async () => {
    for (const [options, attempts] of [
      [{}, 3],
      [{ maxRetries: 0 }, 1],
      [{ maxRetries: 4 }, 5],
    ] as const) {
      const { client, calls } = clientWith([status(500)], options);
      expect(await rejection(settled(act(client)))).toMatchObject({ name: "InternalServerError" });
      expect(calls).toHaveLength(attempts);
    }
    const { client, calls } = clientWith([broken]);
    expect(await rejection(settled(act(client)))).toMatchObject({ name: "ConnectionError", cause: broken });
    expect(calls).toHaveLength(3);
  });
});

describe.each(unrepeatable)("%s", (_, act) => {
  it.each([408, 500, 502, 504])("is not tried again on %i: it may have been acted on", async (code) => {
    const { client, calls } = clientWith([status(code, { "retry-after": "1" }), ok()]);
    expect(await rejection(settled(act(client)))).toMatchObject({ status: code });
    expect(calls).toHaveLength(1);
  });

  it("is not tried again on a network error, nor on 503 that does not say when", async () => {
    for (const failure of [broken, status(503), status(503, { "retry-after": "soon" })]) {
      const { client, calls } = clientWith([failure, ok()]);
      await rejection(settled(act(client)));
      expect(calls).toHaveLength(1);
    }
  });

  it.each([status(429), status(429, { "retry-after": "1" }), status(503, { "retry-after": "1" })])(
    "is tried again where it cannot have been",
    async (failure) => {
      const { client, calls } = clientWith([failure, ok()]);
      await settled(act(client));
      expect(calls).toHaveLength(2);
    },
  );
});

describe("the wait before a retry", () => {
  const waits = async (headers: Record<string, string>, code = 503): Promise<number[]> => {
    const { client, times } = clientWith([status(code, headers)], { maxRetries: 5 });
    await rejection(settled(client.bookings.get("A")));
    return times.slice(1).map((time, index) => time - (times[index] as number));
  };

  it("grows, with jitter, up to 8 s", async () => {
    for (let run = 0; run < 20; run++) {
      for (const [index, wait] of (await waits({}, 500)).entries()) {
        const most = Math.min(500 * 2 ** index, 8000);
        expect(wait).toBeGreaterThanOrEqual(Math.floor(most / 2));
        expect(wait).toBeLessThanOrEqual(most + 1);
      }
    }
    const first = await Promise.all([1, 2, 3, 4].map(() => waits({}, 500)));
    expect(new Set(first.map((list) => list.join())).size).toBeGreaterThan(1);
  });

  it.each([
    [{ "retry-after": "7" }, 7000],
    [{ "retry-after": "60" }, 60_000],
  ])("is what Retry-After says: %j", async (headers, ms) => {
    expect(await waits(headers)).toEqual([ms, ms, ms, ms, ms]);
    expect((await waits(headers, 429))[0]).toBe(ms);
    expect((await waits(headers, 500))[0]).toBe(ms);
  });

  it("may be a date", async () => {
    expect((await waits({ "retry-after": "Mon, 04 May 2026 00:00:20 GMT" }))[0]).toBe(20_000);
  });

  it.each(["61", "86400", "Mon, 04 May 2026 00:01:01 GMT"])("is not slept beyond 60 s: %s", async (value) => {
    const { client, times } = clientWith([status(429, { "retry-after": value }), ok()]);
    const began = Date.now();
    const error = await rejection(settled(client.bookings.get("A")));
    expect(error).toMatchObject({ name: "RateLimitError", status: 429 });
    expect(error.retryAfter).toBeGreaterThan(60);
    expect(times).toHaveLength(1);
    expect(Date.now()).toBe(began);
  });
});

describe("a DELETE", () => {
  it("succeeds if its retry finds nothing, because the first attempt deleted it", async () => {
    const { client } = clientWith([broken, Response.json({ message: "gone" }, { status: 404 })]);
    expect(await settled(client.webhookConfig.delete())).toBeUndefined();
    const other = clientWith([status(502), Response.json({ message: "gone" }, { status: 404 })]);
    expect(await settled(other.client.request("DELETE", "/x"))).toBeUndefined();
    const third = clientWith([status(502), status(404)]);
    const schema = z.object({ deleted: z.boolean() });
    expect(await settled(third.client.request("DELETE", "/x", { schema }))).toBeUndefined();
  });

  it("of client.request rejects if its first attempt found nothing", async () => {
    const { client } = clientWith([status(404)]);
    expect(await rejection(settled(client.request("DELETE", "/x")))).toMatchObject({ name: "NotFoundError" });
  });

  it("is the only method whose retry may find nothing", async () => {
    const { client } = clientWith([broken, status(404)]);
    expect(await rejection(settled(client.webhookConfig.update(config)))).toMatchObject({
      name: "NotFoundError",
    });
  });
});

describe("retryAfterMs", () => {
  const now = Date.parse("2026-05-04T00:00:00Z");
  it.each([
    ["0", 0],
    ["120", 120_000],
    [" 5 ", 5000],
    ["1.5", 1500],
    ["Mon, 04 May 2026 00:00:30 GMT", 30_000],
    ["Monday, 04-May-26 00:00:30 GMT", 30_000],
    ["Mon May  4 00:00:30 2026", 30_000],
    ["Sun, 03 May 2026 00:00:00 GMT", 0],
    ["", undefined],
    ["-1", undefined],
    ["soon 5", undefined],
    ["2026-05-04", undefined],
    ["Mon, 99 May 2026 00:00:30 GMT", undefined],
  ])("reads %j", (value, ms) => {
    expect(retryAfterMs(new Headers({ "retry-after": value }), now)).toBe(ms);
  });

  it("is undefined where there is no such header", () => {
    expect(retryAfterMs(new Headers())).toBeUndefined();
  });
});

describe("over a real connection", () => {
  beforeEach(() => void vi.useRealTimers());

  it("a connection that breaks off, before or within the body, is tried again", async () => {
    for (const cut of [0, 5]) {
      const text = JSON.stringify(booking);
      const server = await platform((_, index) => ({
        raw: (response) => {
          if (index > 0) return response.end(text);
          if (cut > 0)
            response.writeHead(200, { "content-length": String(text.length) }).write(text.slice(0, cut));
          setTimeout(() => response.destroy(), 20);
        },
      }));
      expect(await clientOf(server).bookings.get("A")).toEqual(booking);
      expect(server.requests).toHaveLength(2);
    }
  });

  it("that is lost is a ConnectionError that says so", async () => {
    const server = await platform([{ raw: (response) => void response.destroy() }]);
    const error = await rejection(clientOf(server, { maxRetries: 0 }).bookings.get("A"));
    expect(error.message).toMatch(
      /^GET http:\/\/127\.0\.0\.1:\d+\/v2\/bookings\/A: connection lost \((UND_ERR_SOCKET|ECONNRESET)\)\.$/,
    );
  });

  it("that cannot be made is a ConnectionError that names the host", async () => {
    const gone = createServer().listen(0, "127.0.0.1");
    await once(gone, "listening");
    const { port } = gone.address() as AddressInfo;
    await new Promise((resolve) => gone.close(resolve));
    const client = new StayhookClient({ baseUrl: `http://127.0.0.1:${port}`, accessToken, maxRetries: 0 });
    const error = await rejection(client.bookings.get("A"));
    expect(error).toMatchObject({ name: "ConnectionError", cause: { cause: { code: "ECONNREFUSED" } } });
    expect(error.message).toBe(
      `GET http://127.0.0.1:${port}/v2/bookings/A: connection refused (ECONNREFUSED). Is baseUrl right?`,
    );
  });
});
