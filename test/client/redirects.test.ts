import { describe, expect, it } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import { accessToken, clientOf, fakeFetch, platform, type Received, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: {} };
const to = (location: string, status = 302) => ({ status, headers: { location } });

/** Redirects from /1 to /2 and so on. `last` returns the record. */
const chain = (last: number) => (request: Received) => {
  const at = Number(request.url.slice(1)) || 0;
  return at === last ? { json: booking } : to(`/${at + 1}`);
};

describe("a redirected read", () => {
  it.each([301, 302, 303, 307, 308])("is followed by GET, with the token, after a %i", async (status) => {
    const server = await platform((request) =>
      request.url === "/moved" ? { json: booking } : to("/moved", status),
    );
    expect(await clientOf(server).bookings.get("A")).toEqual(booking);
    expect(server.requests.map(({ method, headers }) => [method, headers.authorization])).toEqual([
      ["GET", `Bearer ${accessToken}`],
      ["GET", `Bearer ${accessToken}`],
    ]);
  });

  it("is followed three times, and not a fourth", async () => {
    const three = await platform(chain(3));
    expect(await clientOf(three).bookings.get("A")).toEqual(booking);
    const four = await platform(chain(4));
    const error = await rejection(clientOf(four).bookings.get("A"));
    expect(error).toMatchObject({ name: "APIError", status: 302, message: expect.stringContaining("/4") });
    expect(four.requests).toHaveLength(4);
  });

  it("a redirect to another origin is not followed", async () => {
    const other = await platform([{ json: booking }]);
    for (const location of [
      `${other.url}/x`,
      "https://login.example/",
      "//login.example/x",
      "http://u:p@127.0.0.1/x",
      "https://[",
      "",
    ]) {
      const server = await platform([to(location)]);
      const error = await rejection(clientOf(server).bookings.get("A"));
      expect(error).toMatchObject({
        name: "APIError",
        status: 302,
        message: expect.stringContaining(location),
      });
      expect(server.requests).toHaveLength(1);
    }
    expect(other.requests).toEqual([]);
  });

  it("is not followed to credentials on the same origin", async () => {
    const server = await platform(({ headers }) => to(`http://u:p@${headers.host}/x`));
    expect(await rejection(clientOf(server).bookings.get("A"))).toMatchObject({
      name: "APIError",
      status: 302,
    });
    expect(server.requests).toHaveLength(1);
  });

  it("is followed below the path of the base URL, and nowhere else", async () => {
    const reading = async (location: string) => {
      const server = await platform(({ url }) =>
        url === "/partner/api/v2/bookings/A" ? to(location) : { json: booking },
      );
      const url = `${server.url}/partner/api/`;
      const outcome = await clientOf({ ...server, url })
        .bookings.get("A")
        .catch((error) => error.status);
      return [outcome, server.requests.length];
    };
    for (const location of ["/partner/api/v3/x", "../x", "./x"])
      expect(await reading(location), location).toEqual([booking, 2]);
    for (const location of [
      "/admin",
      "/partner/apis/x",
      "/partner/api",
      "/partner/api/../admin",
      "/partner/api/%2e%2e/admin",
      "/partner/api/..%2fadmin",
      "../../../admin",
    ])
      expect(await reading(location), location).toEqual([302, 1]);
  });

  it.each([300, 304, 305])("of status %i is an error", async (status) => {
    const server = await platform([to("/x", status)]);
    expect(await rejection(clientOf(server).bookings.get("A"))).toMatchObject({ name: "APIError", status });
    expect(server.requests).toHaveLength(1);
  });

  it("that the runtime hides is an error", async () => {
    const hidden = Object.defineProperties(new Response(), {
      status: { value: 0 },
      type: { value: "opaqueredirect" },
    });
    const { fetch } = fakeFetch([() => Promise.resolve(hidden)]);
    const client = new StayhookClient({ baseUrl: "https://h.example", accessToken, fetch });
    expect(await rejection(client.bookings.get("A"))).toMatchObject({
      name: "APIError",
      status: 0,
      message: expect.stringContaining("redirect"),
    });
  });
});

describe("a write", () => {
  it.each([301, 302, 303, 307, 308])("is never redirected, not by a %i", async (status) => {
    const server = await platform((request) =>
      request.url === "/login" ? { text: "<html>" } : to("/login", status),
    );
    const client = clientOf(server);
    const { webhookConfig } = client;
    const calls = [
      () => webhookConfig.create(config),
      () => webhookConfig.update(config),
      () => webhookConfig.toggle(true),
      () => webhookConfig.delete(),
      () => client.request("POST", "/x"),
    ];
    for (const call of calls)
      expect(await rejection(call())).toMatchObject({
        name: "APIError",
        status,
        message: expect.stringContaining("/login"),
      });
    expect(server.requests.filter(({ url }) => url === "/login")).toEqual([]);
    expect(server.requests).toHaveLength(5);
  });
});
