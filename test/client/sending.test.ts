import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { StayhookClient } from "../../src/client/client.ts";
import { version } from "../../src/version.ts";
import { sized } from "../support/soak.ts";
import { accessToken, answering, clientOf, fakeFetch, platform, type Reply, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: { bookings: "https://hooks.example/b" } };
const numRuns = sized(100, 500);

describe("each endpoint", () => {
  it("is called by its verb, path, query and body", async () => {
    const server = await platform(({ url }) =>
      url === "/v2/listings"
        ? { json: [] }
        : { json: { bookingCode: "A", listingId: 7, status: "Hidden", isActive: true, endpoints: {} } },
    );
    const client = clientOf(server);
    await client.webhookConfig.create(config);
    await client.webhookConfig.get();
    await client.webhookConfig.update({
      isActive: true,
      endpoints: { listings: undefined },
      otherEndpoints: { reviews: "https://hooks.example/r", surveys: null },
    });
    await client.webhookConfig.toggle(false);
    await client.webhookConfig.delete();
    await client.listings.list();
    await client.listings.get("007");
    await client.bookings.get("A");
    const query = { b: ["2", true], c: null, d: undefined };
    await client.request("POST", "/v2/x?a=1", { body: [1], query });
    expect(server.requests.map(({ method, url, body }) => `${method} ${url} ${body}`.trim())).toEqual([
      `POST /v2/webhooks/config ${JSON.stringify(config)}`,
      "GET /v2/webhooks/config",
      'PUT /v2/webhooks/config {"isActive":true,"endpoints":{"reviews":"https://hooks.example/r"}}',
      "PATCH /v2/webhooks/config/toggle?isActive=false",
      "DELETE /v2/webhooks/config",
      "GET /v2/listings",
      "GET /v2/listings/7",
      "GET /v2/bookings/A",
      "POST /v2/x?a=1&b=2&b=true [1]",
    ]);
    for (const { headers, body } of server.requests) {
      expect(headers.authorization).toBe(`Bearer ${accessToken}`);
      expect(headers["user-agent"]).toBe(`stayhook/${version}`);
      expect(headers["content-type"]).toBe(body === "" ? undefined : "application/json");
    }
    expect(version).toBe(packageJson.version);
  });

  it("takes headers and query from the call, which win over the client's, and none replaces authorization", async () => {
    const server = await platform([{ json: booking }]);
    const ours = { "X-A": "client", "X-B": "client", "User-Agent": "mine/1", Authorization: "no" };
    const client = clientOf({ ...server, url: `${server.url}/partner/api/` }, { headers: ours });
    const headers = { "x-b": "call", authorization: "no" };
    await client.bookings.get("A", { headers, query: { expand: "guest" } });
    await client.webhookConfig.toggle(true, {
      query: { isActive: "false", dry: 1 },
      headers: [["x-c", "call"]],
    });
    const authorization = `Bearer ${accessToken}`;
    expect(server.requests).toMatchObject([
      {
        url: "/partner/api/v2/bookings/A?expand=guest",
        headers: { "x-a": "client", "x-b": "call", "user-agent": "mine/1", authorization },
      },
      {
        url: "/partner/api/v2/webhooks/config/toggle?isActive=true&dry=1",
        headers: { "x-c": "call", authorization },
      },
    ]);
  });
});

describe("a path", () => {
  const sent = fakeFetch([Response.json(booking)]);
  const client = new StayhookClient({ baseUrl: "https://h.example/api", accessToken, fetch: sent.fetch });
  const odd = [...[".", "..", "2e", "%2e", "%2f", "%5c", "//", "\ud800"], ..."/%?#\\\t\n@:x"];
  const parts = fc.array(fc.constantFrom(...odd), { maxLength: 8 }).map((all) => all.join(""));

  /** Makes a call. Returns the URL that it has sent, or the path of the argument that it refuses. */
  const outcomeOf = async (call: Promise<unknown>): Promise<URL | string> => {
    const before = sent.calls.length;
    const error = await call.then(
      () => undefined,
      (reason) => reason,
    );
    if (error?.name !== "InvalidArgumentError") return new URL(sent.calls[before]!.url);
    expect(sent.calls).toHaveLength(before);
    expect(String(error)).not.toContain("secret");
    return error.issues.map((issue: { path: string[] }) => issue.path.join(".")).join();
  };

  it("keeps a booking code in its segment, whatever the code", async () => {
    const codes = fc.oneof(parts, fc.string({ unit: "binary" }));
    const property = fc.asyncProperty(codes, async (code) => {
      const url = await outcomeOf(client.bookings.get(code));
      const isRefused = ["", ".", ".."].includes(code) || !code.isWellFormed();
      if (typeof url === "string") {
        expect([url, isRefused]).toEqual(["bookingCode", true]);
        return;
      }
      expect([url.origin + url.search + url.hash, isRefused]).toEqual(["https://h.example", false]);
      expect(url.pathname).toBe(`/api/v2/bookings/${encodeURIComponent(code)}`);
    });
    await fc.assert(property, {
      numRuns,
      examples: [[""], ["."], [".."], ["../x"], ["%2e%2e"], ["a?b#c"], ["\ud800"]],
    });
  });

  it("of client.request never leaves the base URL", async () => {
    const property = fc.asyncProperty(parts, async (rest) => {
      const url = await outcomeOf(client.request("GET", `/${rest}`));
      if (typeof url === "string") expect(url).toBe("path");
      else expect(url.href.startsWith("https://h.example/api/")).toBe(true);
    });
    await fc.assert(property, { numRuns });
    for (const path of ["/", "/v2/a.b/..c", "/v2/x?to=../y", "/v2/100%/x", "/v2//x", "/v2/é"])
      expect(await outcomeOf(client.request("GET", path))).toBeInstanceOf(URL);
    for (const path of [
      ...[
        "v2/x",
        "",
        "https://evil.example/x",
        "//evil.example/x",
        "/\\evil.example",
        "/../x",
        "/v2/../../x",
      ],
      ...["/%2E./x", "/v2/%2e%2e%2fx", "/v2/..\\x", "/v2/%2e%2e%5cx", "/v2/.\t./x", "/x#y", "/\ud800"],
      ...["/%2e%2e%zz/../x", "/%2e%2e%2f%zz"],
    ])
      expect(await outcomeOf(client.request("GET", path)), path).toBe("path");
  });

  it.each([null, undefined, 1.5, {}, ["a"]])(
    "takes no booking code or listing id that is %j",
    async (given) => {
      expect(await outcomeOf(client.bookings.get(given as never))).toBe("bookingCode");
      expect(await outcomeOf(client.listings.get(given as never))).toBe("listingId");
    },
  );

  it.each([Number.NaN, 2 ** 53, "", "x", "../1", true])("takes no listing id %j", async (id) => {
    expect(await outcomeOf(client.listings.get(id as number))).toBe("listingId");
  });

  it.each([
    [1.5, "must be an integer, such as 5717008, not "],
    [2 ** 53, "is larger than a number can hold"],
  ])("says what is wrong with the listing id %s", async (id, said) => {
    expect((await rejection(client.listings.get(id))).message).toContain(said);
  });

  it.each([
    ["method", () => client.request("TRACE" as "GET", "/x")],
    ["path", () => client.request("GET", Object.create(null))],
    ["body", () => client.request("GET", "/x", { body: {} })],
    ["body", () => client.request("POST", "/x", { body: 1n })],
    ["body", () => client.request("POST", "/x", { body: () => {} })],
    ["schema", () => client.request("GET", "/x", { schema: {} as never })],
    ["timeout", () => client.request("GET", "/x", { timeout: 0 })],
    ["timeout", () => client.request("GET", "/x", { timeout: 2 ** 31 })],
    ["maxRetries", () => client.request("GET", "/x", { maxRetries: 1.5 })],
    ["signal", () => client.request("GET", "/x", { signal: {} as never })],
    ["query", () => client.request("GET", "/x", { query: "a=1" as never })],
    ["query.a", () => client.request("GET", "/x", { query: { a: {} as never } })],
    ["headers", () => client.request("GET", "/x", { headers: "a" as never })],
    ["headers.b c", () => client.request("GET", "/x", { headers: { "b c": "v" } })],
    ["headers.b", () => client.request("GET", "/x", { headers: { b: "secret\n€" } })],
    ["", () => client.bookings.get("A", 5 as never)],
  ])("is not sent with a wrong %s: the call rejects, and does not throw", async (path, call) => {
    expect(await outcomeOf(call())).toBe(path);
  });
});

describe("client.request", () => {
  it.each<[Reply, unknown]>([
    [{ json: { a: [1] } }, { a: [1] }],
    [{ json: "x" }, "x"],
    [{ status: 204 }, undefined],
    [{ text: "plain" }, undefined],
  ])("resolves to the parsed JSON of %j", async (reply, expected) => {
    expect(await (await answering(reply)).request("GET", "/x")).toEqual(expected);
  });

  it("resolves to the output of a schema, or rejects with its issues", async () => {
    const client = await answering({ json: { n: "5" } });
    const schema = z.object({ n: z.coerce.number() });
    expect(await client.request("GET", "/x", { schema })).toEqual({ n: 5 });
    const other = z.object({ n: z.object({ m: z.number() }) });
    expect(await rejection(client.request("GET", "/x", { schema: other }))).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: ["n"] }],
      body: { n: "5" },
    });
    const slow = z.object({ n: z.string() }).refine(async () => false, "never");
    expect(await rejection(client.request("GET", "/x", { schema: slow }))).toMatchObject({
      issues: [{ path: [], message: "never" }],
    });
  });
});

describe("withResponse", () => {
  it("gives the data, the response and its body", async () => {
    const json = { data: { listingId: "7", status: "Hidden" } };
    const client = await answering({ json, status: 203, headers: { "x-limit": "5" } });
    const { data, response, body } = await client.listings.get(7).withResponse();
    expect([data, body, response.status]).toEqual([{ listingId: 7, status: "Hidden" }, json, 203]);
    expect(response.headers.get("x-limit")).toBe("5");
    const saved = (await answering({ text: "saved" })).webhookConfig.toggle(true);
    expect(await saved.withResponse()).toMatchObject({ data: undefined, body: "saved" });
    const none = (await answering({ status: 404, text: "" })).webhookConfig.get();
    expect(await none.withResponse()).toMatchObject({ body: undefined, response: { status: 404 } });
  });

  // vitest fails a run with an unhandled rejection.
  it("alone leaves no unhandled rejection behind, and neither does the promise alone", async () => {
    const client = await answering({ status: 403 });
    expect(await rejection(client.bookings.get("A").withResponse())).toMatchObject({ status: 403 });
    expect((await rejection(client.bookings.get("..").withResponse())).name).toBe("InvalidArgumentError");
    expect(await rejection(client.bookings.get("A"))).toMatchObject({ status: 403 });
    await new Promise((resolve) => setTimeout(resolve, 20));
  });
});
