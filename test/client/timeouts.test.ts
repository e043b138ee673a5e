import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { StayhookError } from "../../src/errors.ts";
import { clientOf, fakeFetch, platform, type Reply, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const never = () => new Promise<never>(() => {});
const noHeaders: Reply = { raw: () => {} };
const halfBody: Reply = { raw: (response) => void response.writeHead(200).write("{") };
const nowhere = { url: "https://h.example", requests: [] };

describe("the timeout", () => {
  it.each([
    ["the headers", noHeaders],
    ["the body", halfBody],
  ])("covers waiting for %s, and the call is tried again", async (_, stall) => {
    const server = await platform((__, index) => (index === 0 ? stall : { json: booking }));
    expect(await clientOf(server, { timeout: 1500 }).bookings.get("A")).toEqual(booking);
    expect(server.requests).toHaveLength(2);
    const stuck = await platform([stall]);
    const message = `GET ${stuck.url}/v2/bookings/A: no complete answer within 80 ms.`;
    for (const timeout of [80, "80ms"]) {
      const byClient = rejection(clientOf(stuck, { maxRetries: 0, timeout }).bookings.get("A"));
      const byCall = rejection(clientOf(stuck, { maxRetries: 0 }).bookings.get("A", { timeout }));
      for (const error of [await byClient, await byCall])
        expect(error).toMatchObject({ name: "ConnectionTimeoutError", message });
    }
  });

  it("is 10 s by default, and covers the token", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    for (const options of [{ fetch: never }, { accessToken: never }]) {
      const ended = vi.fn();
      clientOf(nowhere, { maxRetries: 0, ...options })
        .bookings.get("A")
        .catch(ended);
      await vi.advanceTimersByTimeAsync(9_999);
      expect(ended).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(1);
      expect(ended).toHaveBeenCalledWith(expect.objectContaining({ name: "ConnectionTimeoutError" }));
    }
  });

  it("covers the token's refresh, and a refresh that hangs does not hang later calls", async () => {
    const server = await platform(({ headers }) =>
      headers.authorization === "Bearer new" ? { json: booking } : { status: 401 },
    );
    let refreshes = 0;
    const accessToken = ({ reason }: { reason: string }) =>
      reason === "initial" ? "old" : ++refreshes === 1 ? never() : "new";
    const client = clientOf(server, { timeout: 1500, maxRetries: 0, accessToken });
    expect((await rejection(client.bookings.get("A"))).name).toBe("ConnectionTimeoutError");
    expect(await client.bookings.get("A")).toEqual(booking);
  });

  it("covers all redirects of an attempt, and starts anew with each attempt", async () => {
    const slow = await platform(async ({ url }) => {
      await sleep(60);
      return { status: 302, headers: { location: url === "/mid" ? "/end" : "/mid" } };
    });
    const error = await rejection(clientOf(slow, { timeout: 120, maxRetries: 0 }).bookings.get("A"));
    expect(error.name).toBe("ConnectionTimeoutError");
    const busy = await platform(async (_, index) => {
      await sleep(700);
      return index < 2 ? { status: 503, headers: { "retry-after": "0" } } : { json: booking };
    });
    expect(await clientOf(busy, { timeout: 1500 }).bookings.get("A")).toEqual(booking);
  });

  it("aborts the request, holds even if fetch ignores that, and a POST is not tried again", async () => {
    const { calls, fetch } = fakeFetch([never]);
    const { webhookConfig } = clientOf(nowhere, { fetch, timeout: 30 });
    const error = await rejection(webhookConfig.create({ isActive: true, endpoints: {} }));
    expect(error.name).toBe("ConnectionTimeoutError");
    expect(calls.map(({ init }) => init.signal?.aborted)).toEqual([true]);
  });
});

describe("an abort", () => {
  it.each([
    ["an error", new Error("stop")],
    ["an error of this package", new StayhookError("a reason of our own")],
    ["text", "stop"],
    ["an error that is called TimeoutError", new DOMException("late", "TimeoutError")],
  ])("is an AbortError with its reason as cause, at any time of the call: %s", async (_, reason) => {
    for (const [reply, options] of [
      [noHeaders, {}],
      [halfBody, {}],
      [{ status: 503, headers: { "retry-after": "30" } }, {}],
      [noHeaders, { accessToken: never }],
    ] as const) {
      const server = await platform([reply]);
      const controller = new AbortController();
      setTimeout(() => controller.abort(reason), 40);
      const { signal } = controller;
      const error = await rejection(clientOf(server, options).bookings.get("A", { signal }));
      expect([error.name, error.cause]).toEqual(["AbortError", reason]);
      expect(server.requests.length).toBeLessThan(2);
    }
  });

  it("ends a call whose fetch ignores its signal, and lets go of a body", async () => {
    const cancel = vi.fn();
    for (const answer of [never, async () => new Response(new ReadableStream({ cancel }))]) {
      const { fetch } = fakeFetch([answer]);
      const call = clientOf(nowhere, { fetch }).bookings.get("A", { signal: AbortSignal.timeout(40) });
      expect(await rejection(call)).toMatchObject({ name: "AbortError", cause: { name: "TimeoutError" } });
    }
    expect(cancel).toHaveBeenCalledOnce();
  });

  it("before the call sends nothing, and asks for no token", async () => {
    const accessToken = vi.fn(() => "token");
    const { calls, fetch } = fakeFetch([Response.json(booking)]);
    const client = clientOf(nowhere, { accessToken, fetch });
    const error = await rejection(client.bookings.get("A", { signal: AbortSignal.abort("no") }));
    expect(error).toMatchObject({ name: "AbortError", cause: "no" });
    expect([calls, accessToken.mock.calls]).toEqual([[], []]);
  });

  it("between two requests of a call prevents the second one", async () => {
    const server = await platform([{ status: 302, headers: { location: "/moved" } }]);
    const controller = new AbortController();
    const onRequest = vi.fn();
    const client = clientOf(server, { onRequest, onResponse: () => controller.abort("enough") });
    const error = await rejection(client.bookings.get("A", { signal: controller.signal }));
    expect(error).toMatchObject({ name: "AbortError", cause: "enough" });
    expect(onRequest).toHaveBeenCalledOnce();
    expect(server.requests).toHaveLength(1);
  });
});
