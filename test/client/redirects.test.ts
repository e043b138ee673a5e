import { describe, expect, it } from "vitest";
import { accessToken, clientOf, fakeFetch, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: {} };
const to = (location: string, status = 302) => ({ status, headers: { location } });

describe.each([301, 302, 303, 307, 308])("a redirect with %i", (status) => {
  it("is followed by a read, with the token", async () => {
    const server = await platform(({ url }) => (url === "/moved" ? { json: booking } : to("/moved", status)));
    expect(await clientOf(server).bookings.get("A")).toEqual(booking);
    const sent = server.requests.map(({ method, headers }) => [method, headers.authorization]);
    expect(sent).toEqual(Array(2).fill(["GET", `Bearer ${accessToken}`]));
  });

  it("is never followed by a write", async () => {
    const server = await platform([to("/login", status)]);
    const client = clientOf(server);
    const { webhookConfig } = client;
    const calls = [webhookConfig.create(config), webhookConfig.update(config), webhookConfig.toggle(true)];
    const others = [webhookConfig.delete(), client.request("POST", "/x")];
    for (const call of [...calls, ...others].map((each) => rejection(each))) {
      const error = await call;
      expect([error.name, error.status]).toEqual(["APIError", status]);
      expect(error.message).toContain("/login");
    }
    expect(server.requests.filter(({ url }) => url === "/login")).toEqual([]);
    expect(server.requests).toHaveLength(5);
  });
});

it("three redirects of a read are followed, and not a fourth", async () => {
  const chain = (last: number) =>
    platform(({ url }) => {
      const at = Number(url.slice(1)) || 0;
      return at === last ? { json: booking } : to(`/${at + 1}`);
    });
  expect(await clientOf(await chain(3)).bookings.get("A")).toEqual(booking);
  const four = await chain(4);
  const error = await rejection(clientOf(four).bookings.get("A"));
  expect(error).toMatchObject({ name: "APIError", status: 302, message: expect.stringContaining("/4") });
  expect(four.requests).toHaveLength(4);
});

it("a redirect is followed below the path of the base URL, and nowhere else", async () => {
  const other = await platform([{ json: booking }]);
  const reading = async (location: string) => {
    const server = await platform(({ url, headers }) =>
      url === "/partner/api/v2/bookings/A"
        ? to(location.replace("SELF", String(headers.host)))
        : { json: booking },
    );
    const client = clientOf({ ...server, url: `${server.url}/partner/api/` });
    const outcome = await client.bookings.get("A").catch((error) => error.status);
    return [outcome, server.requests.length];
  };
  for (const location of ["/partner/api/v3/x", "../x", "./x"])
    expect(await reading(location), location).toEqual([booking, 2]);
  for (const location of [
    ...["/admin", "/partner/apis/x", "/partner/api", "/partner/api/../admin", "../../../admin"],
    ...["/partner/api/%2e%2e/admin", "/partner/api/..%2fadmin", "http://u:p@SELF/partner/api/x"],
    ...[`${other.url}/partner/api/x`, "//login.example/x", "https://[", ""],
  ])
    expect(await reading(location), location).toEqual([302, 1]);
  expect(other.requests).toEqual([]);
});

it.each([
  [300, "APIError"],
  [304, "APIError"],
  [305, "APIError"],
  [399, "APIError"],
  [400, "BadRequestError"],
])("an answer with %i is an error, not a redirect", async (status, name) => {
  const server = await platform([to("/x", status)]);
  const error = await rejection(clientOf(server).bookings.get("A"));
  expect(error).toMatchObject({ name, status });
  // A target is told of a 3xx alone.
  expect(error.message.includes("redirect to")).toBe(status < 400);
  expect(server.requests).toHaveLength(1);
});

it("a redirect that the runtime hides is an error that says so", async () => {
  const values = { status: { value: 0 }, type: { value: "opaqueredirect" } };
  const { fetch } = fakeFetch([async () => Object.defineProperties(new Response(), values)]);
  const error = await rejection(
    clientOf({ url: "https://h.example", requests: [] }, { fetch }).bookings.get("A"),
  );
  expect(error).toMatchObject({ name: "APIError", status: 0, message: expect.stringContaining("redirect") });
});
