import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import { StayhookError } from "../../src/errors.ts";
import { accessToken, clientOf, fakeFetch, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const never = () => new Promise<never>(() => {});

describe("the timeout", () => {
  it.each([
    ["the headers", { raw: () => {} }],
    [
      "the body",
      { raw: (response: import("node:http").ServerResponse) => void response.writeHead(200).write("{") },
    ],
  ])("covers waiting for %s, and is tried again", async (_, stall) => {
    const server = await platform((__, index) => (index === 0 ? stall : { json: booking }));
    expect(await clientOf(server, { timeout: 80 }).bookings.get("A")).toEqual(booking);
    expect(server.requests).toHaveLength(2);
    const stuck = await platform([stall]);
    const error = await rejection(clientOf(stuck, { maxRetries: 0 }).bookings.get("A", { timeout: 80 }));
    expect(error).toMatchObject({
      name: "ConnectionTimeoutError",
      message: `GET ${stuck.url}/v2/bookings/A: no complete answer within 80 ms.`,
    });
  });

  it("is 10 s by default", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const client = new StayhookClient({
      baseUrl: "https://h.example",
      accessToken,
      fetch: never,
      maxRetries: 0,
    });
    const ended = vi.fn();
    client.bookings.get("A").catch(ended);
    await vi.advanceTimersByTimeAsync(9_999);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toHaveBeenCalledWith(expect.objectContaining({ name: "ConnectionTimeoutError" }));
  });

  it("covers the token", async () => {
    const server = await platform([{ json: booking }]);
    const client = clientOf(server, { timeout: 50, maxRetries: 0, accessToken: never });
    expect(await rejection(client.bookings.get("A"))).toMatchObject({ name: "ConnectionTimeoutError" });
    expect(server.requests).toEqual([]);
  });

  it("covers the token's refresh, and one that hangs does not hang those that come later", async () => {
    const server = await platform(({ headers }) =>
      headers.authorization === "Bearer new" ? { json: booking } : { status: 401 },
    );
    let refreshes = 0;
    const accessToken = ({ reason }: { reason: string }) =>
      reason === "initial" ? "old" : ++refreshes === 1 ? never() : "new";
    const client = clientOf(server, { timeout: 500, maxRetries: 0, accessToken });
    expect(await rejection(client.bookings.get("A"))).toMatchObject({ name: "ConnectionTimeoutError" });
    expect(await client.bookings.get("A")).toEqual(booking);
  });

  it("covers all redirects together", async () => {
    const server = await platform(async ({ url }) => {
      await sleep(60);
      return url === "/end"
        ? { json: booking }
        : { status: 302, headers: { location: url === "/mid" ? "/end" : "/mid" } };
    });
    expect(
      await rejection(clientOf(server, { timeout: 120, maxRetries: 0 }).bookings.get("A")),
    ).toMatchObject({ name: "ConnectionTimeoutError" });
  });

  it("starts anew with each attempt", async () => {
    const server = await platform(async (_, index) => {
      await sleep(250);
      return index < 2 ? { status: 503, headers: { "retry-after": "0" } } : { json: booking };
    });
    expect(await clientOf(server, { timeout: 600 }).bookings.get("A")).toEqual(booking);
  });

  it("holds even where fetch ignores its signal, and is not tried again for a POST", async () => {
    const { calls, fetch } = fakeFetch([never]);
    const client = new StayhookClient({ baseUrl: "https://h.example", accessToken, fetch, timeout: 30 });
    expect(await rejection(client.webhookConfig.create({ isActive: true, endpoints: {} }))).toMatchObject({
      name: "ConnectionTimeoutError",
    });
    expect(calls).toHaveLength(1);
  });

  it("ends the request", async () => {
    let aborted: AbortSignal | null | undefined;
    const { fetch } = fakeFetch([
      (init) => {
        aborted = init.signal;
        return never();
      },
    ]);
    const client = new StayhookClient({
      baseUrl: "https://h.example",
      accessToken,
      fetch,
      timeout: 30,
      maxRetries: 0,
    });
    await rejection(client.bookings.get("A"));
    expect(aborted?.aborted).toBe(true);
  });
});

describe("an abort", () => {
  const ours = new StayhookError("a reason of our own");
  it.each([
    ["an error", new Error("stop")],
    ["a StayhookError", ours],
    ["text", "stop"],
    ["what is called TimeoutError", new DOMException("late", "TimeoutError")],
  ])("is an AbortError with its reason as cause: %s", async (_, reason) => {
    const stalled = await platform([{ raw: () => {} }]);
    const stalling = await platform([{ raw: (response) => void response.writeHead(200).write("{") }]);
    const waiting = await platform([{ status: 503, headers: { "retry-after": "30" } }]);
    for (const [server, options] of [
      [stalled, {}],
      [stalling, {}],
      [waiting, {}],
      [stalled, { accessToken: never }],
    ] as const) {
      const controller = new AbortController();
      setTimeout(() => controller.abort(reason), 40);
      const error = await rejection(
        clientOf(server, options).bookings.get("A", { signal: controller.signal }),
      );
      expect(error.name).toBe("AbortError");
      expect(error.cause).toBe(reason);
    }
    expect(stalled.requests).toHaveLength(1);
  });

  it("ends a call whose fetch ignores its signal, and lets go of a body", async () => {
    let cancelled = false;
    const body = new ReadableStream({
      cancel: () => {
        cancelled = true;
      },
    });
    for (const answer of [never, () => Promise.resolve(new Response(body))]) {
      const { fetch } = fakeFetch([answer]);
      const client = new StayhookClient({ baseUrl: "https://h.example", accessToken, fetch });
      const began = performance.now();
      const error = await rejection(client.bookings.get("A", { signal: AbortSignal.timeout(40) }));
      expect(error.name).toBe("AbortError");
      expect(performance.now() - began).toBeLessThan(5000);
    }
    expect(cancelled).toBe(true);
  });

  it("before the call sends nothing, and asks for no token", async () => {
    const server = await platform([{ json: booking }]);
    const accessToken = vi.fn(() => "token");
    const call = clientOf(server, { accessToken }).bookings.get("A", { signal: AbortSignal.abort("no") });
    expect(await rejection(call)).toMatchObject({ name: "AbortError", cause: "no" });
    expect(server.requests).toEqual([]);
    expect(accessToken).not.toHaveBeenCalled();
  });

  it("between two requests of a call keeps the second from going out", async () => {
    const server = await platform([{ status: 302, headers: { location: "/moved" } }]);
    const controller = new AbortController();
    const onRequest = vi.fn();
    const client = clientOf(server, { onRequest, onResponse: () => controller.abort("enough") });
    const error = await rejection(client.bookings.get("A", { signal: controller.signal }));
    expect(error).toMatchObject({ name: "AbortError", cause: "enough" });
    expect(onRequest).toHaveBeenCalledOnce();
    expect(server.requests).toHaveLength(1);
  });

  it("by AbortSignal.timeout is one too, and is not tried again", async () => {
    const server = await platform([{ raw: () => {} }]);
    const error = await rejection(clientOf(server).bookings.get("A", { signal: AbortSignal.timeout(400) }));
    expect(error).toMatchObject({ name: "AbortError", cause: { name: "TimeoutError" } });
    expect(server.requests).toHaveLength(1);
  });

  it("after the call has no effect", async () => {
    const server = await platform([{ json: booking }]);
    const controller = new AbortController();
    const result = await clientOf(server).bookings.get("A", { signal: controller.signal });
    controller.abort();
    expect(result).toEqual(booking);
  });
});
