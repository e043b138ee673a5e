import fc from "fast-check";
import { describe, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { StayhookClient } from "../../src/client/client.ts";
import { version } from "../../src/version.ts";
import { accessToken, clientOf, fakeFetch, platform, rejection } from "./support.ts";

const config = { isActive: true, endpoints: { bookings: "https://hooks.example/b" } };

describe("each endpoint", () => {
  it("is called by its verb, path, query and body", async () => {
    const server = await platform(({ url }) =>
      url === "/v2/listings"
        ? { json: [] }
        : { json: { bookingCode: "A", listingId: 7, status: "Hidden", isActive: true, endpoints: {} } },
    );
    const client = clientOf(server);
    await client.webhookConfig.create(config);
    await client.webhookConfig.update({ ...config, isActive: false });
    await client.webhookConfig.get();
    await client.webhookConfig.update({
      isActive: true,
      endpoints: { listings: undefined },
      otherEndpoints: { reviews: "https://hooks.example/r", surveys: null },
    });
    await client.webhookConfig.toggle(false);
    await client.webhookConfig.delete();
    await client.listings.list();
    await client.listings.get(7);
    await client.listings.get("007");
    await client.bookings.get("A");
    await client.request("POST", "/v2/x?a=1", {
      body: [1],
      query: { b: ["2", true], c: null, d: undefined },
    });
    expect(server.requests.map(({ method, url, body }) => `${method} ${url} ${body}`.trim())).toEqual([
      `POST /v2/webhooks/config ${JSON.stringify(config)}`,
      `PUT /v2/webhooks/config ${JSON.stringify({ ...config, isActive: false })}`,
      "GET /v2/webhooks/config",
      'PUT /v2/webhooks/config {"isActive":true,"endpoints":{"reviews":"https://hooks.example/r"}}',
      "PATCH /v2/webhooks/config/toggle?isActive=false",
      "DELETE /v2/webhooks/config",
      "GET /v2/listings",
      "GET /v2/listings/7",
      "GET /v2/listings/7",
      "GET /v2/bookings/A",
      "POST /v2/x?a=1&b=2&b=true [1]",
    ]);
    for (const { headers, body } of server.requests) {
      expect(headers.authorization).toBe(`Bearer ${accessToken}`);
      expect(headers["user-agent"]).toBe(`stayhook/${version}`);
      expect(headers["content-type"]).toBe(body === "" ? undefined : "application/json");
    }
  });

  it("takes headers and query from the call, which win over the client's, and none replaces authorization", async () => {
    const server = await platform([{ json: { bookingCode: "A", status: "x" } }]);
    const client = clientOf(server, {
      headers: { "X-A": "client", "X-B": "client", "User-Agent": "mine/1", Authorization: "no" },
    });
    await client.bookings.get("A", {
      headers: { "x-b": "call", authorization: "no" },
      query: { expand: "guest" },
    });
    await client.webhookConfig.toggle(true, {
      query: { isActive: "false", dry: 1 },
      headers: [["x-c", "call"]],
    });
    expect(server.requests[0]).toMatchObject({
      url: "/v2/bookings/A?expand=guest",
      headers: {
        "x-a": "client",
        "x-b": "call",
        "user-agent": "mine/1",
        authorization: `Bearer ${accessToken}`,
      },
    });
    expect(server.requests[1]?.url).toBe("/v2/webhooks/config/toggle?isActive=true&dry=1");
    expect(server.requests[1]?.headers["x-c"]).toBe("call");
  });

  it("says the version that the package has", () => {
    expect(version).toBe(packageJson.version);
  });

  it("is reached below the base URL's own path", async () => {
    const server = await platform([{ json: { bookingCode: "A", status: "x" } }]);
    await clientOf({ ...server, url: `${server.url}/partner/api/` }).bookings.get("A");
    await clientOf({ ...server, url: `${server.url}/partner/api` }).request("GET", "/v2/x");
    expect(server.requests.map(({ url }) => url)).toEqual([
      "/partner/api/v2/bookings/A",
      "/partner/api/v2/x",
    ]);
  });
});

describe("a path parameter", () => {
  const sent = fakeFetch([new Response(JSON.stringify({ bookingCode: "A", status: "x" }))]);
  const client = new StayhookClient({ baseUrl: "https://h.example/api", accessToken, fetch: sent.fetch });

  it.each(["", ".", "..", "\ud800", "a\udc00", null, undefined, 1.5, Number.NaN, {}, ["a"]])(
    "is refused before anything is sent: bookings.get(%j)",
    async (code) => {
      const before = sent.calls.length;
      const error = await rejection(client.bookings.get(code as string));
      expect(error).toMatchObject({ name: "InvalidArgumentError", issues: [{ path: ["bookingCode"] }] });
      expect(sent.calls).toHaveLength(before);
    },
  );

  it.each([
    1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 53,
    "",
    "x",
    "../1",
    null,
    undefined,
    {},
    [1],
    true,
  ])("is refused before anything is sent: listings.get(%j)", async (id) => {
    const before = sent.calls.length;
    const error = await rejection(client.listings.get(id as number));
    expect(error).toMatchObject({ name: "InvalidArgumentError", issues: [{ path: ["listingId"] }] });
    expect(sent.calls).toHaveLength(before);
  });

  it.each([
    ["a/b", "a%2Fb"],
    ["../x", "..%2Fx"],
    ["%2e%2e", "%252e%252e"],
    ["a?b#c", "a%3Fb%23c"],
    ["a\\b", "a%5Cb"],
    ["\u0000\n", "%00%0A"],
    ["é😀", "%C3%A9%F0%9F%98%80"],
  ])("is encoded: %j", async (code, segment) => {
    await rejection(client.bookings.get(code));
    expect(sent.calls.at(-1)?.url).toBe(`https://h.example/api/v2/bookings/${segment}`);
  });

  it("never leaves its segment, whatever it is", { timeout: 30_000 }, async () => {
    const pieces = fc.constantFrom(
      ".",
      "..",
      "/",
      "%",
      "2e",
      "%2e",
      "%2F",
      "?",
      "#",
      "\\",
      "\t",
      "\n",
      ";",
      ":",
      "@",
      "\ud800",
      "//h",
    );
    const codes = fc.oneof(
      fc.array(pieces, { maxLength: 6 }).map((parts) => parts.join("")),
      fc.string({ unit: "binary" }),
    );
    await fc.assert(
      fc.asyncProperty(codes, async (code) => {
        const before = sent.calls.length;
        const error = await client.bookings.get(code).then(
          () => undefined,
          (reason) => reason,
        );
        if (error?.name === "InvalidArgumentError") {
          expect(sent.calls).toHaveLength(before);
          return;
        }
        const url = new URL(sent.calls.at(-1)?.url ?? "");
        expect(url.origin + url.search + url.hash).toBe("https://h.example");
        const segments = url.pathname.split("/");
        expect(segments.slice(0, 4)).toEqual(["", "api", "v2", "bookings"]);
        expect(segments).toHaveLength(5);
        expect(decodeURIComponent(segments[4] ?? "")).toBe(code);
      }),
      { numRuns: 500 },
    );
  });
});

describe("client.request", () => {
  const sent = fakeFetch([new Response("{}")]);
  const client = new StayhookClient({ baseUrl: "https://h.example/api", accessToken, fetch: sent.fetch });

  it.each([
    "v2/x",
    "",
    "https://evil.example/x",
    "//evil.example/x",
    "/\\evil.example",
    "/..",
    "/../x",
    "/v2/../../x",
    "/.",
    "/%2e%2e/x",
    "/%2E./x",
    "/v2/%2e%2e%2fx",
    "/v2/..\\x",
    "/v2/%2e%2e%5cx",
    "/v2/.\t./x",
    "/v2/\n",
    "/x#y",
    "/\ud800",
    "/%2e%2e%zz/../x",
    "/%2e%2e%2f%zz",
  ])("refuses the path %j", async (path) => {
    const before = sent.calls.length;
    expect(await rejection(client.request("GET", path))).toMatchObject({
      name: "InvalidArgumentError",
      issues: [{ path: ["path"] }],
    });
    expect(sent.calls).toHaveLength(before);
  });

  it.each(["/", "/v2/a.b/..c", "/v2/x?to=../y", "/v2/100%/x", "/v2//x", "/v2/é"])(
    "takes the path %j",
    async (path) => {
      await client.request("GET", path);
      expect(sent.calls.at(-1)?.url.startsWith("https://h.example/api/")).toBe(true);
    },
  );

  it("never leaves the base URL, whatever the path", { timeout: 30_000 }, async () => {
    const pieces = fc.constantFrom(
      "/",
      ".",
      "..",
      "%2e",
      "%2f",
      "%5c",
      "\\",
      "?",
      "#",
      "\t",
      "@",
      ":",
      "x",
      "//",
      "%",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 8 }), async (parts) => {
        const before = sent.calls.length;
        await client
          .request("GET", `/${parts.join("")}`)
          .catch((error) => expect(error.name).toBe("InvalidArgumentError"));
        for (const { url } of sent.calls.slice(before))
          expect(new URL(url).href.startsWith("https://h.example/api/")).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ["method", () => client.request("TRACE" as "GET", "/x")],
    ["method", () => client.request(undefined as never, "/x")],
    ["path", () => client.request("GET", undefined as never)],
    ["path", () => client.request("GET", Object.create(null))],
    ["body", () => client.request("GET", "/x", { body: {} })],
    ["body", () => client.request("POST", "/x", { body: 1n })],
    ["body", () => client.request("POST", "/x", { body: () => {} })],
    ["schema", () => client.request("GET", "/x", { schema: {} as never })],
    ["timeout", () => client.request("GET", "/x", { timeout: 0 })],
    ["timeout", () => client.request("GET", "/x", { timeout: 2 ** 31 })],
    ["timeout", () => client.request("GET", "/x", { timeout: "5" as never })],
    ["maxRetries", () => client.request("GET", "/x", { maxRetries: -1 })],
    ["maxRetries", () => client.request("GET", "/x", { maxRetries: 1.5 })],
    ["signal", () => client.request("GET", "/x", { signal: {} as never })],
    ["query", () => client.request("GET", "/x", { query: "a=1" as never })],
    ["query.a", () => client.request("GET", "/x", { query: { a: {} as never } })],
    ["headers", () => client.request("GET", "/x", { headers: "a" as never })],
    ["headers.b c", () => client.request("GET", "/x", { headers: { "b c": "v" } })],
    ["headers.b", () => client.request("GET", "/x", { headers: { b: "secret\n€" } })],
    ["", () => client.bookings.get("A", 5 as never)],
  ])("rejects, and does not throw, a bad %s", async (path, call) => {
    const before = sent.calls.length;
    const error = await rejection(call());
    expect(error.name).toBe("InvalidArgumentError");
    expect((error.issues as { path: string[] }[]).map((issue) => issue.path.join("."))).toEqual([path]);
    expect(String(error)).not.toContain("secret");
    expect(sent.calls).toHaveLength(before);
  });
});
