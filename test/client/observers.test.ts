import { describe, expect, it } from "vitest";
import type { RequestObservation, ResponseObservation } from "../../src/client/observers.ts";
import { clientOf, keepingLogger, platform, type Reply, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };

async function observe(replies: Reply[], options = {}) {
  const server = await platform(replies);
  const seen: (RequestObservation | ResponseObservation)[] = [];
  const keep = (info: RequestObservation | ResponseObservation) => seen.push(info);
  return { seen, client: clientOf(server, { onRequest: keep, onResponse: keep, ...options }) };
}

describe("observers", () => {
  it("see a request and its answer: method, route, path, attempt, status, duration", async () => {
    const { seen, client } = await observe([{ json: { ...booking, bookingCode: "A/B" } }]);
    await client.bookings.get("A/B", { query: { key: "hidden" } });
    const request = {
      id: seen[0]?.id,
      method: "GET",
      route: "/v2/bookings/{bookingCode}",
      path: "/v2/bookings/A%2FB",
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v2\/bookings\/A%2FB$/),
      attempt: 1,
      resendCount: 0,
    };
    expect(seen).toEqual([request, { ...request, status: 200, duration: expect.any(Number) }]);
  });

  it("see a pair for each request that goes out: resent, redirected, tried again", async () => {
    const replies = [
      { status: 401 },
      { status: 302, headers: { location: "/moved" } },
      { status: 503, headers: { "retry-after": "0" } },
      { json: booking },
    ];
    const { seen, client } = await observe(replies, { accessToken: () => "token" });
    await client.bookings.get("A");
    const [path, moved] = ["/v2/bookings/A", "/moved"];
    expect(seen.map((info) => [info.attempt, info.path, "status" in info ? info.status : "out"])).toEqual([
      [1, path, "out"],
      [1, path, 401],
      [1, path, "out"],
      [1, path, 302],
      [1, moved, "out"],
      [1, moved, 503],
      [2, path, "out"],
      [2, path, 200],
    ]);
    expect(new Set(seen.map(({ route }) => route))).toEqual(new Set(["/v2/bookings/{bookingCode}"]));
    expect(seen.map(({ resendCount }) => resendCount)).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(4);
  });

  it.each([
    ["ConnectionTimeoutError", { timeout: 400 }, {}],
    ["AbortError", {}, { signal: () => AbortSignal.timeout(400) }],
  ])("see the %s where no answer came", async (name, options, call) => {
    const { seen, client } = await observe([{ raw: () => {} }], { maxRetries: 0, ...options });
    const { signal } = call as { signal?: () => AbortSignal };
    await rejection(client.bookings.get("A", { signal: signal?.() }));
    await expect.poll(() => seen.length).toBe(2);
    expect(seen[1]).toMatchObject({ error: { name }, duration: expect.any(Number) });
    expect((seen[1] as ResponseObservation).duration).toBeGreaterThan(100);
    expect(seen[1]).not.toHaveProperty("status");
  });

  it("see the ConnectionError, the same that is thrown", async () => {
    const { seen, client } = await observe([{ raw: (response) => response.destroy() }], { maxRetries: 0 });
    const error = await rejection(client.bookings.get("A"));
    expect(error.name).toBe("ConnectionError");
    expect((seen[1] as ResponseObservation).error).toBe(error);
  });

  it("see no request that is not sent", async () => {
    const { seen, client } = await observe([{ json: booking }], {
      accessToken: () => {
        throw new Error("none");
      },
    });
    await rejection(client.bookings.get("A"));
    await rejection(client.bookings.get(".."));
    await rejection(client.bookings.get("A", { signal: AbortSignal.abort() }));
    expect(seen).toEqual([]);
  });

  it("have the route of client.request without its query", async () => {
    const { seen, client } = await observe([{ json: {} }]);
    await client.request("GET", "/v2/x/y?z=1");
    expect(seen[0]).toMatchObject({ route: "/v2/x/y", path: "/v2/x/y" });
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("observer");
      },
    ],
    ["rejects", () => Promise.reject(new Error("observer"))],
    [
      "changes what it was given",
      (info: RequestObservation) => Object.assign(info, { method: "EVIL", path: "", attempt: 9 }),
    ],
    ["never ends", () => new Promise(() => {})],
  ])("break nothing, where one %s", async (_, observer) => {
    const { logger, warnings } = keepingLogger();
    const server = await platform([{ status: 503, headers: { "retry-after": "0" } }, { json: booking }]);
    const client = clientOf(server, { onRequest: observer, onResponse: observer, logger });
    expect(await client.bookings.get("A")).toEqual(booking);
    expect(server.requests.map(({ method }) => method)).toEqual(["GET", "GET"]);
    const said = ["onRequest", "onResponse", "onRequest", "onResponse"];
    const expected = said.map((name) => `stayhook: the client's \`${name}\` threw: Error: observer`);
    expect(warnings).toEqual(/throws|rejects/.test(_) ? expected : []);
  });

  it("beside them, a logger gets one debug line for each request", async () => {
    const lines: string[] = [];
    const server = await platform([{ status: 503, headers: { "retry-after": "0" } }, { json: booking }]);
    const client = clientOf(server, { logger: ({ level, message }) => lines.push(`${level} ${message}`) });
    await client.bookings.get("A", { query: { key: "hidden" } });
    expect(lines.map((line) => line.replace(/\d+ ms$/, "… ms"))).toEqual([
      "debug stayhook: attempt 1 of GET /v2/bookings/A was answered with 503 after … ms",
      "debug stayhook: attempt 2 of GET /v2/bookings/A was answered with 200 after … ms",
    ]);
    const gone = clientOf(
      { url: "http://127.0.0.1:1", requests: [] },
      {
        maxRetries: 0,
        logger: ({ message }) => lines.push(message),
      },
    );
    await rejection(gone.bookings.get("A"));
    expect(lines[2]).toMatch(/got no complete answer \(connection_failed\) after \d+ ms$/);
  });
});
