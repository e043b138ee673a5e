import { describe, expect, it } from "vitest";
import type { ClientOptions } from "../../src/client/client-options.ts";
import type { RequestObservation, ResponseObservation } from "../../src/client/observers.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf, keepingLogger, platform, type Reply, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const later = { status: 503, headers: { "retry-after": "0" } };
type Observation = RequestObservation | ResponseObservation;

async function observe(replies: Reply[], options: Partial<ClientOptions> = {}) {
  const server = await platform(replies);
  const seen: Observation[] = [];
  const keep = (info: Observation) => seen.push(info);
  return { seen, client: clientOf(server, { onRequest: keep, onResponse: keep, ...options }) };
}

describe("observers", () => {
  it("see a request and its answer, without the query", async () => {
    const { seen, client } = await observe([{ json: { ...booking, bookingCode: "A/B" } }]);
    const start = performance.now();
    await client.bookings.get("A/B", { query: { key: "hidden" } });
    expect((seen[1] as ResponseObservation).duration).toBeLessThanOrEqual(performance.now() - start);
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
    await client.request("GET", "/v2/x/y?z=1");
    expect(seen[2]).toMatchObject({ route: "/v2/x/y", path: "/v2/x/y" });
  });

  it("see a pair for each request: resent, redirected, tried again", async () => {
    const moving = { status: 302, headers: { location: "/moved" } };
    const replies = [{ status: 401 }, moving, later, { json: booking }];
    const { seen, client } = await observe(replies, { accessToken: () => "token" });
    await client.bookings.get("A");
    const facts = seen.map(({ attempt, resendCount, path, ...info }) =>
      [attempt, resendCount, path, "status" in info ? info.status : "sent"].join(" "),
    );
    expect(facts).toEqual([
      ...["1 0 /v2/bookings/A sent", "1 0 /v2/bookings/A 401"],
      ...["1 1 /v2/bookings/A sent", "1 1 /v2/bookings/A 302"],
      ...["1 2 /moved sent", "1 2 /moved 503"],
      ...["2 3 /v2/bookings/A sent", "2 3 /v2/bookings/A 200"],
    ]);
    expect(new Set(seen.map(({ route }) => route))).toEqual(new Set(["/v2/bookings/{bookingCode}"]));
    expect(new Set(seen.map(({ id }) => id)).size).toBe(4);
  });

  it("see the error if no complete answer came", async () => {
    const stall = { raw: () => {} };
    const lost: Reply = { raw: (response) => response.destroy() };
    for (const [name, reply, options, call] of [
      ["ConnectionTimeoutError", stall, { timeout: 400 }, () => ({})],
      ["AbortError", stall, {}, () => ({ signal: AbortSignal.timeout(400) })],
      ["ConnectionError", lost, {}, () => ({})],
    ] as const) {
      const { seen, client } = await observe([reply], { maxRetries: 0, ...options });
      const error = await rejection(client.bookings.get("A", call()));
      await eventually(() => expect(seen).toHaveLength(2));
      expect(seen[1]).toMatchObject({ error: { name }, duration: expect.any(Number) });
      expect(seen[1]).not.toHaveProperty("status");
      if (reply === lost) expect((seen[1] as ResponseObservation).error).toBe(error);
      else expect((seen[1] as ResponseObservation).duration).toBeGreaterThan(100);
    }
  });

  it("see no request that is not sent", async () => {
    const accessToken = () => Promise.reject(new Error("none"));
    const { seen, client } = await observe([{ json: booking }], { accessToken });
    await rejection(client.bookings.get("A"));
    await rejection(client.bookings.get(".."));
    await rejection(client.bookings.get("A", { signal: AbortSignal.abort() }));
    expect(seen).toEqual([]);
  });

  const failing = () => {
    throw new Error("observer");
  };
  it.each<[string, boolean, (info: RequestObservation) => unknown]>([
    ["throws", true, failing],
    ["rejects", true, async () => failing()],
    ["changes its argument", false, (info) => Object.assign(info, { method: "EVIL", path: "", attempt: 9 })],
    ["never ends", false, () => new Promise(() => {})],
  ])("break nothing, even if one %s", async (_, fails, observer) => {
    const { logger, warnings } = keepingLogger();
    const server = await platform([later, { json: booking }]);
    const client = clientOf(server, { onRequest: observer, onResponse: observer, logger });
    expect(await client.bookings.get("A")).toEqual(booking);
    expect(server.requests.map(({ method }) => method)).toEqual(["GET", "GET"]);
    const said = ["onRequest", "onResponse", "onRequest", "onResponse"];
    const expected = said.map((name) => `stayhook: the client's \`${name}\` threw: Error: observer`);
    expect(warnings).toEqual(fails ? expected : []);
  });

  it("stand beside a logger, which gets one debug line for each request", async () => {
    const lines: string[] = [];
    const logger: ClientOptions["logger"] = ({ level, message }) => void lines.push(`${level} ${message}`);
    const server = await platform([later, { json: booking }, { raw: (response) => response.destroy() }]);
    const client = clientOf(server, { logger });
    await client.bookings.get("A", { query: { key: "hidden" } });
    await rejection(client.bookings.get("A", { maxRetries: 0 }));
    expect(lines.map((line) => line.replace(/\d+ ms$/, "… ms"))).toEqual([
      "debug stayhook: attempt 1 of GET /v2/bookings/A was answered with 503 after … ms",
      "debug stayhook: attempt 2 of GET /v2/bookings/A was answered with 200 after … ms",
      "debug stayhook: attempt 1 of GET /v2/bookings/A got no complete answer (connection_failed) after … ms",
    ]);
  });
});
