import { afterEach, describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/client-options.ts";
import { stay } from "../../src/models/dates.ts";
import { Booking } from "../../src/models/records.ts";
import { accessToken, fakeFetch, rejection } from "./support.ts";

const { calls, fetch } = fakeFetch([new Response("{}")]);
const base = { baseUrl: "https://h.example", accessToken, fetch };
const { bookings, listings, webhookConfig } = new StayhookClient(base);
const request = (options: object) => new StayhookClient(base).request("POST", "/x", options);
const url = "https://hooks.example/b";
const config = { isActive: true, endpoints: { bookings: url } };

/** Returns the paths of the issues of the constructor. */
function issuesOf(options: object): string[] {
  try {
    new StayhookClient({ ...base, ...options } as ClientOptions);
    return [];
  } catch (error) {
    expect(error).toMatchObject({ name: "InvalidArgumentError" });
    expect(String(error)).not.toMatch(/s3cr3t/);
    return (error as { issues: { path: string[] }[] }).issues.map((issue) => issue.path.join("."));
  }
}

describe("a misspelled option", () => {
  it.each([
    ["maxRetry", "maxRetries", { maxRetry: 5 }],
    ["timeoutMs", "timeout", { timeoutMs: undefined }],
    ["nextpage", "nextPage", { nextpage: () => {} }],
    ["TIMEOUT", "timeout", { TIMEOUT: 5 }],
    ["models.bookings", "models.booking", { models: { bookings: {} } }],
  ])("of the constructor throws: %s for %s", (wrong, right, options) => {
    expect(() => new StayhookClient({ ...base, ...options } as ClientOptions)).toThrow(
      `unknown option \`${wrong}\`; did you mean \`${right}\`?`,
    );
    expect(issuesOf(options)).toEqual([wrong]);
  });

  it("of the constructor is named with all others, and with all names if none is near", () => {
    expect(issuesOf({ maxRetry: 5, colour: 1 })).toEqual(["maxRetry", "colour"]);
    for (const name of ["colour", "s", "", "__proto__x", "x".repeat(100_000)])
      expect(() => new StayhookClient({ ...base, [name]: 1 } as ClientOptions)).toThrow(
        "the known options are `baseUrl`",
      );
  });

  it.each([null, 5, "timeout", [["timeout"]]])("is none in options that are no object: %j", async (given) => {
    expect((await rejection(bookings.get("A", given as never))).message).toContain("must be an object");
  });

  const options = { timeuot: 5 } as object;
  it.each<[string, () => Promise<unknown>, string]>([
    ["bookings.get", () => bookings.get("A", options), "timeout"],
    ["listings.get", () => listings.get(1, options), "timeout"],
    ["listings.list", () => listings.list(options), "timeout"],
    ["webhookConfig.get", () => webhookConfig.get(options), "timeout"],
    ["create", () => webhookConfig.create(config, options), "timeout"],
    ["update", () => webhookConfig.update(config, options), "timeout"],
    ["toggle", () => webhookConfig.toggle(true, options), "timeout"],
    ["delete", () => webhookConfig.delete(options), "timeout"],
    ["ensure", () => webhookConfig.ensure(config, options), "timeout"],
    ["request", () => request(options), "timeout"],
    ["request", () => request({ bodi: {} }), "body"],
    ["create", () => webhookConfig.create({ ...config, active: true } as never), "isActive"],
    ["ensure", () => webhookConfig.ensure({ ...config, otherEndpoint: {} } as never), "otherEndpoints"],
    [
      "update",
      () => webhookConfig.update({ isActive: true, endpoints: { booking: url } } as never),
      "endpoints.bookings",
    ],
    ["ensure", () => webhookConfig.ensure({ endpoints: { Listings: url } } as never), "endpoints.listings"],
  ])("of %s rejects, and nothing is sent: %#", async (_, call, right) => {
    const before = calls.length;
    const error = await rejection(call());
    expect(error.name).toBe("InvalidArgumentError");
    expect(error.message).toContain(`did you mean \`${right}\`?`);
    expect(calls).toHaveLength(before);
  });

  it("of endpoints says where a newer topic goes", async () => {
    const error = await rejection(webhookConfig.ensure({ endpoints: { reviews: url } } as never));
    expect(error.message).toMatch(/^unknown option `endpoints.reviews`; .*belongs in otherEndpoints\)$/);
  });

  it("of stay throws", () => {
    expect(() => stay({}, { timezone: "UTC" } as object)).toThrow(
      "unknown option `timezone`; did you mean `timeZone`?",
    );
    for (const given of [null, "UTC", ["UTC"]])
      expect(() => stay({}, given as never)).toThrow("the options must be an object");
  });
});

describe("the constructor", () => {
  it.each([
    ...["https://h.example/api/", "http://localhost:3000", "http://127.9.9.9:1/x", "http://[::1]:8080"],
    ...["http://app.localhost", "HTTPS://H.example", new URL("https://h.example/x")],
  ])("takes the base URL %s", (baseUrl) => {
    expect(issuesOf({ baseUrl })).toEqual([]);
  });

  it.each([
    ...[null, 5, "", "h.example", "/api", "ftp://h.example", "https:h.example"],
    ...["http://h.example", "http://127.0.0.1.evil.example", "http://localhost.evil.example"],
    ...["http://0.0.0.0", "https://u:s3cr3t@h.example", "https://s3cr3t@h.example"],
    ...["https://h.example?s3cr3t=1", "https://h.example/?", "https://h.example/#"],
  ])("refuses the base URL %s", (baseUrl) => {
    expect(issuesOf({ baseUrl })).toEqual(["baseUrl"]);
  });

  it("takes http on any host with allowInsecureHttp", () => {
    expect(issuesOf({ baseUrl: "http://h.example", allowInsecureHttp: true })).toEqual([]);
    expect(issuesOf({ baseUrl: "http://h.example", allowInsecureHttp: "yes" })).toEqual(["baseUrl"]);
  });

  it.each([
    ["accessToken", { accessToken: undefined }],
    ["accessToken", { accessToken: "s3cr3t\n" }],
    ["accessToken", { accessToken: "s3cr3t€" }],
    ["timeout", { timeout: -1 }],
    ["timeout", { timeout: Number.NaN }],
    ["maxRetries", { maxRetries: "2" }],
    ["fetch", { fetch: {} }],
    ["onRequest", { onRequest: 1 }],
    ["onResponse", { onResponse: null }],
    ["logger", { logger: { info() {}, warn() {}, error() {} } }],
    ["models.booking", { models: { booking: {} } }],
    ["headers.x", { headers: { x: "s3cr3t\u0000" } }],
    ["baseUrl,accessToken,maxRetries", { baseUrl: 1, accessToken: 2, timeout: 3, maxRetries: -4 }],
  ])("names each wrong option: %s", (paths, options) => {
    expect(issuesOf(options).join()).toBe(paths);
  });
});

describe("the environment", () => {
  afterEach(() => void vi.unstubAllEnvs());

  it("gives the base URL and the token that the options leave out", async () => {
    vi.stubEnv("STAYHOOK_BASE_URL", "https://env.example/api");
    vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "env-token");
    const { calls, fetch } = fakeFetch([new Response("{}")]);
    for (const options of [{}, { baseUrl: "https://own.example", accessToken: "own" }])
      await new StayhookClient({ fetch, ...options }).request("GET", "/x");
    expect(calls.map(({ url, init }) => [url, new Headers(init.headers).get("authorization")])).toEqual([
      ["https://env.example/api/x", "Bearer env-token"],
      ["https://own.example/x", "Bearer own"],
    ]);
    expect(() => new StayhookClient()).not.toThrow();
    // The environment does not replace an option that is given and wrong.
    expect(issuesOf({ accessToken: "" })).toEqual(["accessToken"]);
    expect(issuesOf({ accessToken: null })).toEqual(["accessToken"]);
    expect(issuesOf({ accessToken: process.env.TOKNE })).toEqual(["accessToken"]);
    expect(issuesOf({ baseUrl: process.env.URLL })).toEqual(["baseUrl"]);
  });

  it.each([
    ["", true],
    [null, false],
  ])("may be unset if an option is %j: %s", (accessToken, isSaid) => {
    const make = () => new StayhookClient({ ...base, accessToken } as ClientOptions);
    expect(make).toThrow(
      isSaid ? /accessToken: .* \(is an environment variable unset\?\)$/ : /^((?!unset).)*$/,
    );
  });

  it("is named by the error if it has neither", () => {
    vi.stubEnv("STAYHOOK_BASE_URL", "");
    vi.stubEnv("STAYHOOK_ACCESS_TOKEN", undefined);
    expect(() => new StayhookClient()).toThrow(
      /^baseUrl: .*STAYHOOK_BASE_URL; accessToken: .*STAYHOOK_ACCESS_TOKEN$/,
    );
  });
});

describe("withOptions", () => {
  const models = { booking: Booking.extend({ guestName: z.string() }) };
  const client = new StayhookClient({ ...base, maxRetries: 0, headers: { a: "1" }, models });

  it("gives a client of its own, with some options replaced", async () => {
    const { calls, fetch: other } = fakeFetch([Response.json({ bookingCode: "A", status: "x" })]);
    const changed = client.withOptions({ fetch: other, headers: { b: "2" } });
    expect(await rejection(changed.bookings.get("A"))).toMatchObject({ issues: [{ path: ["guestName"] }] });
    expect(calls[0]?.url).toBe("https://h.example/v2/bookings/A");
    const headers = new Headers(calls[0]?.init.headers);
    expect([headers.get("a"), headers.get("b")]).toEqual([null, "2"]);
    const plain = changed.withOptions({ models: { booking: Booking } });
    expect(await plain.bookings.get("A")).toEqual({ bookingCode: "A", status: "x" });
    expect(calls).toHaveLength(2);
    expect(() => client.withOptions({ timeuot: 5 } as object)).toThrow("did you mean `timeout`?");
  });

  it("keeps the options as they were read, whatever the environment and the objects hold later", async () => {
    const { calls, fetch: other } = fakeFetch([Response.json({ bookingCode: "A", status: "x" })]);
    vi.stubEnv("STAYHOOK_BASE_URL", "https://first.example");
    vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "first-token");
    const options: ClientOptions = { fetch: other, headers: { a: "1" }, models: {} };
    const client = new StayhookClient(options);
    for (const value of ["https://second.example", undefined]) {
      vi.stubEnv("STAYHOOK_BASE_URL", value);
      vi.stubEnv("STAYHOOK_ACCESS_TOKEN", value && "second-token");
      Object.assign(options, { headers: { a: "2" }, baseUrl: "https://third.example", accessToken: "third" });
      await client.withOptions({ timeout: 5 }).withOptions({}).bookings.get("A");
      const headers = new Headers(calls.at(-1)?.init.headers);
      expect([calls.at(-1)?.url, headers.get("a"), headers.get("authorization")]).toEqual([
        "https://first.example/v2/bookings/A",
        "1",
        "Bearer first-token",
      ]);
    }
    vi.unstubAllEnvs();
  });
});
