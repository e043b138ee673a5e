// The forms of headers, queries, bodies, signals and answers. The client takes the forms that it understands, and names
// the others. It drops nothing.
import { Readable } from "node:stream";
import { describe, expect, it, vi } from "vitest";
import type {
  ClientOptions,
  HeadersInput,
  QueryPairs,
  RequestOptions,
} from "../../src/client/client-options.ts";
import { type answering, clientOf, fakeFetch, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const answer = () => Response.json(booking);
const baseUrl = "https://h.example";

function recorded(options: ClientOptions = {}) {
  const { calls, fetch } = fakeFetch([async () => answer()]);
  const client = clientOf({ url: baseUrl, requests: [] }, { fetch, maxRetries: 0, ...options });
  const last = () => {
    const { url, init } = calls.at(-1)!;
    return { ...init, headers: new Headers(init.headers), search: new URL(url).search };
  };
  return { client, calls, last };
}

/** A `Headers` of another implementation: its values are hidden, and it can be iterated. */
class OtherHeaders {
  readonly #pairs = new Map([["x-tenant", "a"]]);
  [Symbol.iterator]() {
    return this.#pairs[Symbol.iterator]();
  }
}
/** Hides its content from everyone. */
class Opaque {
  readonly #x = 1;
  get x() {
    return this.#x;
  }
}
function* pairsOf(...pairs: [string, string][]) {
  yield* pairs;
}

describe("headers", () => {
  it.each<[string, () => unknown, string]>([
    ["a Headers", () => new Headers({ "x-tenant": "a" }), "a"],
    ["a Headers of another implementation", () => new OtherHeaders(), "a"],
    ["a Map", () => new Map([["X-Tenant", "a"]]), "a"],
    ["pairs", () => [["x-tenant", "a"]], "a"],
    ["an iterator", () => pairsOf(["x-tenant", "a"]), "a"],
    ["URLSearchParams", () => new URLSearchParams({ "x-tenant": "a" }), "a"],
    ["a number", () => ({ "x-tenant": 7, "x-other": undefined }), "7"],
    [
      "the same name twice",
      () => [
        ["x-tenant", "a"],
        ["X-Tenant", "b"],
      ],
      "a, b",
    ],
    ["a list of values", () => ({ "x-tenant": ["a", "b"] }), "a, b"],
  ])("are taken as %s, by the client and by a call", async (_, given, sent) => {
    const byCall = recorded();
    await byCall.client.bookings.get("A", { headers: given() as HeadersInput });
    expect(byCall.last().headers.get("x-tenant")).toBe(sent);
    const byClient = recorded({ headers: given() as HeadersInput });
    await byClient.client.withOptions({ timeout: 5 }).bookings.get("A");
    expect(byClient.last().headers.get("x-tenant")).toBe(sent);
  });

  it.each<[string, unknown, string]>([
    ["names and values in one list", ["x-tenant", "s3cr3t"], "headers"],
    ["a text", "x-tenant: s3cr3t", "headers"],
    ["a Set", new Set(["s3cr3t"]), "headers"],
    ["a triple", [["x-tenant", "s3cr3t", "b"]], "headers"],
    ["an object that hides its content", new Opaque(), "headers"],
    ["a promise", Promise.resolve({ "x-tenant": "s3cr3t" }), "headers"],
    ["null", { "x-tenant": null }, "headers.x-tenant"],
    ["an object as value", { "x-tenant": { s3cr3t: 1 } }, "headers.x-tenant"],
  ])("that are %s are an error, which names them and shows no value", async (_, given, path) => {
    const headers = given as HeadersInput;
    const { client, calls } = recorded();
    const error = await rejection(client.bookings.get("A", { headers }));
    expect(error).toMatchObject({ name: "InvalidArgumentError" });
    expect(error.message).toContain(`${path}: `);
    expect(error.message).not.toContain("s3cr3t");
    expect(() => recorded({ headers })).toThrow(`${path}: `);
    expect(calls).toEqual([]);
  });
});

describe("a query", () => {
  const forms: [string, () => unknown, string][] = [
    ["an object", () => ({ a: [1, "2"], b: null, c: true }), "?a=1&a=2&c=true"],
    ["URLSearchParams", () => new URLSearchParams("a=1&c=x&a=2"), "?a=1&a=2&c=x"],
    [
      "a Map",
      () =>
        new Map<string, unknown>([
          ["a", 1],
          ["b", [2, undefined]],
        ]),
      "?a=1&b=2",
    ],
    ["pairs", () => [["a", "1"]], "?a=1"],
    ["an iterator", () => pairsOf(["a", "1"]), "?a=1"],
  ];
  it.each(forms)("is taken as %s", async (_, query, search) => {
    const { client, last } = recorded();
    await client.bookings.get("A", { query: query() as QueryPairs });
    expect(last().search).toBe(search);
  });

  it.each([
    ["a text", "a=1"],
    ["a list of texts", ["a", "1"]],
    ["a Set", new Set(["a"])],
    ["an object that hides its content", new Opaque()],
    ["an object as value", { a: { b: 1 } }],
    ["a Date", { a: new Date() }],
  ])("that is %s is an error", async (_, query) => {
    const { client, calls } = recorded();
    const error = await rejection(client.bookings.get("A", { query: query as QueryPairs }));
    expect(error).toMatchObject({ name: "InvalidArgumentError" });
    expect(error.message).toMatch(/^query(\.a)?: must be/);
    expect(calls).toEqual([]);
  });

  it("of nextPage may be URLSearchParams, and headers and query of the call go to every page", async () => {
    const { url, requests } = await platform(({ url }) => ({
      json: {
        listings: [{ listingId: Number(/page=(\d)/.exec(url)?.[1] ?? 1), status: "x" }],
        next: url.includes("page=3") ? null : `?page=${url.includes("page=2") ? 3 : 2}`,
      },
    }));
    const asked: unknown[] = [];
    const client = clientOf(
      { url, requests },
      {
        nextPage: ({ body, query }) => {
          asked.push(query);
          const { next } = body as { next: string | null };
          return next === null ? undefined : new URL(next, url).searchParams;
        },
      },
    );
    const options: RequestOptions = { headers: pairsOf(["x-tenant", "a"]), query: pairsOf(["kind", "all"]) };
    const list = client.listings.list(options);
    expect(await list).toHaveLength(3);
    const ids: unknown[] = [];
    for await (const row of list) ids.push(row.listingId);
    expect(ids).toEqual([1, 2, 3]);
    expect(requests.map((each) => [each.url, each.headers["x-tenant"]])).toEqual(
      [1, 2].flatMap(() =>
        ["kind=all", "kind=all&page=2", "kind=all&page=3"].map((query) => [`/v2/listings?${query}`, "a"]),
      ),
    );
    expect(asked.slice(0, 3)).toEqual([{}, { page: "2" }, { page: "3" }]);
  });
});

describe("a body", () => {
  it.each<[string, unknown, string]>([
    ["FormData", new FormData(), "a FormData"],
    ["Blob", new Blob(["x"]), "a Blob"],
    ["web stream", new Blob(["x"]).stream(), "a ReadableStream"],
    ["stream of Node", Readable.from(["x"]), "a stream"],
    ["URLSearchParams", new URLSearchParams("a=1"), "a URLSearchParams"],
    ["Buffer", Buffer.from("x"), "a Uint8Array"],
    ["ArrayBuffer", new ArrayBuffer(1), "an ArrayBuffer"],
    ["Map", new Map([["a", 1]]), "a Map"],
    ["Set", new Set([1]), "a Set"],
    ["promise", Promise.resolve({}), "a Promise"],
    ["object that hides its content", new Opaque(), "an Opaque"],
    ["function", () => 1, "a function"],
  ])("that is a %s is an error, also within the body", async (_, body, kind) => {
    const { client, calls } = recorded();
    const whole = await rejection(client.request("POST", "/x", { body }));
    const part = await rejection(client.request("POST", "/x", { body: { list: [{ file: body }] } }));
    for (const error of [whole, part])
      expect(error).toMatchObject({ name: "InvalidArgumentError", issues: [{ path: ["body"] }] });
    expect(whole.message).toContain(`cannot be ${kind}, because the client sends JSON`);
    expect(part.message).toContain(`\`file\` cannot be ${kind}`);
    expect(calls).toEqual([]);
  });

  it("is sent with dates, objects of classes, texts and empty objects", async () => {
    const { client, last } = recorded();
    class Rate {
      readonly night = 7;
    }
    const body = {
      at: new Date(0),
      rate: new Rate(),
      none: {},
      gone: undefined,
      bare: Object.create(null),
      n: Object(5),
    };
    await client.request("POST", "/x", { body });
    expect(last().body).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","rate":{"night":7},"none":{},"bare":{},"n":5}',
    );
  });
});

describe("a signal", () => {
  it("of another implementation is an error, and no outage", async () => {
    const { client, calls } = recorded();
    class OtherSignal extends EventTarget {
      readonly aborted = false;
      readonly [Symbol.toStringTag] = "AbortSignal";
    }
    const signal = new OtherSignal();
    const error = await rejection(client.bookings.get("A", { signal: signal as unknown as AbortSignal }));
    expect(error).toMatchObject({ name: "InvalidArgumentError", issues: [{ path: ["signal"] }] });
    expect(calls).toEqual([]);
  });
});

describe("a `fetch` of another implementation", () => {
  /** A response like node-fetch's: its body is a stream of Node. */
  const other = (text: string, status = 200) => ({
    status,
    headers: new Map([["x-request-id", "r1"]]) as unknown as Headers,
    bodyUsed: false,
    body: Readable.from([text]),
    text: async () => text,
  });

  it("needs a status, headers and text()", async () => {
    const fetch = vi.fn(async () => other(JSON.stringify(booking)));
    const { client } = recorded({ fetch });
    expect(await client.bookings.get("A")).toEqual(booking);
    await client.request("POST", "/x", { body: {} });
    expect(fetch).toHaveBeenCalledTimes(2);
    const failing = recorded({ fetch: async () => other('{"message":"no"}', 403) });
    expect(await rejection(failing.client.bookings.get("A"))).toMatchObject({
      name: "PermissionDeniedError",
      requestId: "r1",
      body: { message: "no" },
    });
    const long = recorded({ fetch: async () => other(`"${"x".repeat(100)}"`), maxResponseBytes: 100 });
    expect((await rejection(long.client.bookings.get("A"))).message).toContain("is longer than 100 bytes");
    expect(() => recorded({ maxResponseBytes: 1 })).not.toThrow();
  });

  const used = async () => {
    const response = answer();
    await response.text();
    return response;
  };
  const shared = answer();
  const throwing = (error: Error) => Promise.reject(error);
  const mistakes: [string, () => unknown, RegExp][] = [
    ["returns nothing", async () => undefined, /`fetch` did not return a Response/],
    ["returns the data", async () => booking, /`fetch` did not return a Response/],
    ["has read the body", used, /body has been read already.*clone/],
    ["returns one response for all calls", async () => shared, /body has been read already.*clone/],
    ["has a bug", () => (undefined as unknown as Response).clone(), /`fetch` threw TypeError: Cannot read/],
    [
      "names what is missing",
      () => throwing(new ReferenceError("x is not defined")),
      /ReferenceError: x is not/,
    ],
    [
      "refuses its arguments",
      () => {
        const cause = Object.assign(new Error("invalid onRequestStart method"), {
          code: "UND_ERR_INVALID_ARG",
        });
        return throwing(new TypeError("fetch failed", { cause }));
      },
      /invalid onRequestStart method/,
    ],
  ];
  it.each(mistakes)("that %s is told as a mistake: at once, and as no outage", async (_, fetch, message) => {
    const spy = vi.fn(fetch);
    const { client } = recorded({ fetch: spy as unknown as ClientOptions["fetch"], maxRetries: 2 });
    // The first call may have its answer.
    await client.bookings.get("A").catch(() => {});
    const error = await rejection(client.bookings.get("A"));
    expect(spy).toHaveBeenCalledTimes(2);
    expect(error).toMatchObject({ name: "StayhookError", code: "stayhook_error" });
    expect(error.message).toMatch(message);
    expect(error.message).toContain("Correct the client's option `fetch`");
    expect(error.message).not.toContain("tok_");
  });

  it.each([
    new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code: "ECONNRESET" }) }),
    new TypeError("Failed to fetch"),
    new TypeError("NetworkError when attempting to fetch resource."),
    new TypeError("Load failed"),
    new TypeError("terminated"),
    new TypeError("error sending request for url (https://h.example/)"),
    new Error("Network connection lost."),
    Object.assign(new Error("request to https://h.example failed"), {
      name: "FetchError",
      code: "ENOTFOUND",
    }),
    Object.assign(new Error("x"), { code: "UND_ERR_CONNECT_TIMEOUT" }),
    new Error("the proxy is down"),
  ])("is out of reach, and no mistake: %s", async (cause) => {
    const { client } = recorded({ fetch: async () => Promise.reject(cause) });
    expect(await rejection(client.bookings.get("A"))).toMatchObject({ name: "ConnectionError", cause });
  });

  it("is told not to cache", async () => {
    const { client, last } = recorded();
    await client.bookings.get("A");
    expect(last().cache).toBe("no-store");
  });
});

describe("a method of the client", () => {
  it("works alone, and through a Proxy", async () => {
    const { client, calls } = recorded();
    const { request, withOptions } = client;
    const wrapped = new Proxy(client, {});
    await request("GET", "/x");
    await withOptions({ timeout: 5_000 }).bookings.get("A");
    await wrapped.request("GET", "/x");
    await wrapped.withOptions({}).request("GET", "/x");
    expect(calls).toHaveLength(4);
    expect(Object.keys(client)).not.toContain("request");
  });
});

describe("an answer without a byte", () => {
  it.each(["bookings", "listings"] as const)(
    "of a GET is asked for again, and then is no missing record: %s",
    async (kind) => {
      const record = { ...booking, listingId: 7 };
      const read = (client: Awaited<ReturnType<typeof answering>>) =>
        kind === "bookings" ? client.bookings.get("A") : client.listings.get(7);
      const server = await platform([{ text: "" }, { json: record }]);
      expect(await read(clientOf(server))).toMatchObject(record);
      expect(server.requests).toHaveLength(2);
      const empty = await platform([{ text: "" }]);
      const error = await rejection(read(clientOf(empty, { maxRetries: 1 })));
      expect(error).toMatchObject({ name: "ConnectionError", code: "connection_failed" });
      expect(error.message).toMatch(/was answered with 200 and an empty body/);
      expect(empty.requests).toHaveLength(2);
    },
  );

  it("is an error of a list, no configuration, and nothing for another endpoint", async () => {
    const server = await platform([{ text: "" }]);
    const client = clientOf(server, { maxRetries: 1 });
    expect(await rejection(client.listings.list() as Promise<unknown>)).toMatchObject({
      name: "ConnectionError",
    });
    expect(await client.webhookConfig.get()).toBeUndefined();
    expect(await client.request("GET", "/x")).toBeUndefined();
    expect(server.requests).toHaveLength(6);
    expect(await client.request("POST", "/x")).toBeUndefined();
    expect(await client.request("HEAD", "/x")).toBeUndefined();
    expect(server.requests).toHaveLength(8);
    const none = await platform([{ status: 204 }]);
    expect(await clientOf(none).webhookConfig.get()).toBeUndefined();
    expect(await rejection(clientOf(none).bookings.get("A"))).toMatchObject({ name: "NotFoundError" });
    expect(none.requests).toHaveLength(2);
  });

  it("that a proxy cut from gzip is one, too", async () => {
    const server = await platform([
      {
        raw: (response) => {
          const bytes = Buffer.from("1f8b0800000000000003", "hex");
          response.writeHead(200, { "content-encoding": "gzip", "content-type": "application/json" });
          response.end(bytes);
        },
      },
    ]);
    expect(await rejection(clientOf(server, { maxRetries: 0 }).bookings.get("A"))).toMatchObject({
      name: "ConnectionError",
    });
  });
});
