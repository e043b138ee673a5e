import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import { retryAfterMs } from "../../src/client/client-errors.ts";
import type { ClientOptions } from "../../src/client/client-options.ts";
import { freePort } from "../support/server-process.ts";
import { accessToken, clientOf, fakeFetch, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: {} };
const ok = () => Response.json(booking);
const status = (code: number, retryAfter?: string) =>
  new Response(null, {
    status: code,
    headers: retryAfter === undefined ? {} : { "retry-after": retryAfter },
  });
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

describe.each<[string, boolean, Act]>([
  ["GET", true, (client) => client.bookings.get("A")],
  ["PUT", true, (client) => client.webhookConfig.update(config)],
  ["DELETE", true, (client) => client.webhookConfig.delete()],
  ["toggle", true, (client) => client.webhookConfig.toggle(true)],
  ["request GET", true, (client) => client.request("GET", "/x")],
  ["request PUT", true, (client) => client.request("PUT", "/x", { body: 1 })],
  ["create", false, (client) => client.webhookConfig.create(config)],
  ["request POST", false, (client) => client.request("POST", "/x", { body: 1 })],
  ["request PATCH", false, (client) => client.request("PATCH", "/x", { body: 1 })],
])("%s (idempotent: %s)", (name, idempotent, act) => {
  const requestsAfter = async (failure: Response | Error) => {
    const { client, calls } = clientWith([failure, ok()]);
    await settled(act(client)).catch(() => {});
    expect(new Set(calls.map(({ url, init }) => `${init.method} ${url} ${init.body}`)).size).toBe(1);
    return calls.length;
  };

  it("is retried after transient failures, if another try is safe", async () => {
    const again = idempotent ? 2 : 1;
    for (const code of [408, 500, 501, 502, 504, 599])
      expect(await requestsAfter(status(code, "1"))).toBe(again);
    for (const failure of [broken, status(503), status(503, "soon")])
      expect(await requestsAfter(failure)).toBe(again);
    // These answers say that the platform has not acted.
    for (const failure of [status(429), status(429, "1"), status(503, "1")])
      expect(await requestsAfter(failure)).toBe(2);
    for (const code of [400, 401, 403, 404, 409, 410, 413, 422])
      expect(await requestsAfter(status(code)), `${code}`).toBe(1);
  });

  it("gives up after maxRetries, 2 by default, with the last error", async () => {
    for (const [options, attempts] of [
      [{}, 3],
      [{ maxRetries: 0 }, 1],
      [{ maxRetries: 4 }, 5],
    ] as const) {
      const { client, calls } = clientWith([status(429)], options);
      expect(await rejection(settled(act(client)))).toMatchObject({ name: "RateLimitError" });
      expect(calls).toHaveLength(attempts);
    }
    const { client } = clientWith([broken]);
    expect(await rejection(settled(act(client))), name).toMatchObject({
      name: "ConnectionError",
      cause: broken,
    });
  });
});

describe("the wait before a retry", () => {
  const waits = async (code: number, retryAfter?: string): Promise<number[]> => {
    const { client, times } = clientWith([status(code, retryAfter)], { maxRetries: 5 });
    await rejection(settled(client.bookings.get("A")));
    return times.slice(1).map((time, index) => time - (times[index] as number));
  };

  it("doubles up to 8 s, with jitter", async () => {
    const runs = await Promise.all(Array.from({ length: 20 }, () => waits(500)));
    for (const run of runs)
      for (const [index, wait] of run.entries()) {
        const most = Math.min(500 * 2 ** index, 8000);
        expect(wait).toBeGreaterThanOrEqual(Math.floor(most / 2));
        expect(wait).toBeLessThanOrEqual(most + 1);
      }
    expect(new Set(runs.map((run) => run.join())).size).toBeGreaterThan(1);
  });

  it("is what Retry-After says, up to 60 s", async () => {
    expect((await waits(503, "Mon, 04 May 2026 00:00:20 GMT"))[0]).toBe(20_000);
    for (const code of [429, 500, 503])
      for (const seconds of [1, 7])
        expect(await waits(code, String(seconds))).toEqual(Array(5).fill(seconds * 1000));
    expect((await waits(503, "60"))[0]).toBe(60_000);
    for (const value of ["61", "86400", "Mon, 04 May 2026 01:00:00 GMT"]) {
      const { client, calls } = clientWith([status(429, value), ok()]);
      const error = await rejection(settled(client.bookings.get("A")));
      expect(error).toMatchObject({ name: "RateLimitError", retryAfter: expect.any(Number) });
      expect(error.retryAfter).toBeGreaterThan(60);
      expect(calls).toHaveLength(1);
    }
  });

  it("is never none, so that the clients of a platform that asks for none do not come at once", async () => {
    for (const value of ["0", "Sun, 03 May 2026 00:00:00 GMT", "0.001"])
      for (const [index, wait] of (await waits(503, value)).entries())
        expect(wait).toBeGreaterThanOrEqual(Math.floor(Math.min(500 * 2 ** index, 8000) / 2));
    const runs = await Promise.all(Array.from({ length: 20 }, () => waits(503, "0")));
    expect(new Set(runs.map((run) => run.join())).size).toBeGreaterThan(1);
  });

  it.each([
    ["Mon, 04 May 2026 00:02:00 GMT", "Mon, 04 May 2026 00:02:04 GMT", 4000],
    ["Sun, 03 May 2026 23:58:00 GMT", "Sun, 03 May 2026 23:58:04 GMT", 4000],
    ["Sun May  3 23:58:00 2026", "Sunday, 03-May-26 23:58:04 GMT", 4000],
    ["soon", "Mon, 04 May 2026 00:00:04 GMT", 4000],
  ])("counts from the Date of the answer: %j", async (date, retryAfter, ms) => {
    const headers = { date, "retry-after": retryAfter };
    expect(retryAfterMs(new Headers(headers))).toBe(ms);
    const { client } = clientWith([new Response("{}", { status: 429, headers })], { maxRetries: 0 });
    expect(await rejection(client.bookings.get("A"))).toMatchObject({ retryAfter: ms / 1000 });
  });

  it.each([
    ["0", 0],
    [" 5 ", 5000],
    ["1.5", 1500],
    ["Mon, 04 May 2026 00:00:30 GMT", 30_000],
    ["Monday, 04-May-26 00:00:30 GMT", 30_000],
    ["Mon May  4 00:00:30 2026", 30_000],
    ["Sun, 03 May 2026 00:00:00 GMT", 0],
    ["", undefined],
    ["-1", undefined],
    ["2026-05-04", undefined],
    ["Mon, 99 May 2026 00:00:30 GMT", undefined],
  ])("is read from each form of Retry-After: %j", (value, ms) => {
    expect(retryAfterMs(new Headers({ "retry-after": value }))).toBe(ms);
    expect(retryAfterMs(new Headers())).toBeUndefined();
  });
});

describe("the retry of a DELETE", () => {
  it("may find nothing, because the first attempt deleted it", async () => {
    const gone = Response.json({ message: "gone" }, { status: 404 });
    const schema = z.object({ deleted: z.boolean() });
    const calls: Act[] = [
      (client) => client.webhookConfig.delete(),
      (client) => client.request("DELETE", "/x"),
      (client) => client.request("DELETE", "/x", { schema }),
    ];
    for (const act of calls) expect(await settled(act(clientWith([broken, gone]).client))).toBeUndefined();
    const found = settled(clientWith([gone]).client.request("DELETE", "/x"));
    expect(await rejection(found)).toMatchObject({ name: "NotFoundError" });
    const put = settled(clientWith([broken, gone]).client.webhookConfig.update(config));
    expect(await rejection(put)).toMatchObject({ name: "NotFoundError" });
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

  it("a connection that is lost or refused is a ConnectionError that says so", async () => {
    const server = await platform([{ raw: (response) => void response.destroy() }]);
    const lost = await rejection(clientOf(server, { maxRetries: 0 }).bookings.get("A"));
    expect(lost.message).toMatch(
      /^GET http:\/\/127\.0\.0\.1:\d+\/v2\/bookings\/A: connection lost \((UND_ERR_SOCKET|ECONNRESET)\)\.$/,
    );
    const url = `http://127.0.0.1:${await freePort()}`;
    const refused = await rejection(clientOf({ url, requests: [] }, { maxRetries: 0 }).bookings.get("A"));
    expect(refused).toMatchObject({ name: "ConnectionError", cause: { cause: { code: "ECONNREFUSED" } } });
    expect(refused.message).toBe(
      `GET ${url}/v2/bookings/A: connection refused (ECONNREFUSED). Is baseUrl right?`,
    );
  });
});
