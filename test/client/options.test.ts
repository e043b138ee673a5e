import { afterEach, describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/client-options.ts";
import { InvalidArgumentError } from "../../src/errors.ts";
import { stay } from "../../src/models/dates.ts";
import { Booking } from "../../src/models/records.ts";
import { checkNoUnknown } from "../../src/option-names.ts";
import { accessToken, fakeFetch, rejection } from "./support.ts";

const { calls, fetch } = fakeFetch([new Response("{}")]);
const client = new StayhookClient({ baseUrl: "https://h.example", accessToken, fetch });
const url = "https://hooks.example/b";
const config = { isActive: true, endpoints: { bookings: url } };

describe("a misspelled option", () => {
  it.each<[string, string, object]>([
    ["maxRetry", "maxRetries", { maxRetry: 5 }],
    ["token", "accessToken", { token: "x" }],
    ["timeoutMs", "timeout", { timeoutMs: undefined }],
    ["nextpage", "nextPage", { nextpage: () => {} }],
    ["onRespond", "onResponse", { onRespond: () => {} }],
    ["models.bookings", "models.booking", { models: { bookings: {} } }],
  ])("of the constructor throws: %s for %s", (wrong, right, options) => {
    const make = () =>
      new StayhookClient({ baseUrl: "https://h.example", accessToken, ...options } as ClientOptions);
    expect(make).toThrow(InvalidArgumentError);
    expect(make).toThrow(
      expect.objectContaining({
        message: `unknown option \`${wrong}\`; did you mean \`${right}\`?`,
        issues: [{ path: wrong.split("."), message: expect.any(String) }],
      }),
    );
  });

  const options = { timeuot: 5 } as object;
  it.each<[string, () => Promise<unknown>]>([
    ["bookings.get", () => client.bookings.get("A", options)],
    ["listings.get", () => client.listings.get(1, options)],
    ["listings.list", () => client.listings.list(options)],
    ["webhookConfig.get", () => client.webhookConfig.get(options)],
    ["webhookConfig.create", () => client.webhookConfig.create(config, options)],
    ["webhookConfig.update", () => client.webhookConfig.update(config, options)],
    ["webhookConfig.toggle", () => client.webhookConfig.toggle(true, options)],
    ["webhookConfig.delete", () => client.webhookConfig.delete(options)],
    ["webhookConfig.ensure", () => client.webhookConfig.ensure(config, options)],
    ["request", () => client.request("GET", "/x", options)],
  ])("of %s rejects, and nothing is sent", async (_, call) => {
    const before = calls.length;
    const error = await rejection(call());
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error.message).toBe("unknown option `timeuot`; did you mean `timeout`?");
    expect(calls).toHaveLength(before);
  });

  it.each<[string, () => Promise<unknown>, string]>([
    ["create", () => client.webhookConfig.create({ ...config, active: true } as never), "isActive"],
    ["update", () => client.webhookConfig.update({ ...config, isactive: true } as never), "isActive"],
    [
      "ensure",
      () => client.webhookConfig.ensure({ ...config, otherEndpoint: {} } as never),
      "otherEndpoints",
    ],
    [
      "create",
      () => client.webhookConfig.create({ isActive: true, endpoints: { booking: url } } as never),
      "endpoints.bookings",
    ],
    [
      "ensure",
      () => client.webhookConfig.ensure({ endpoints: { Listings: url } as never }),
      "endpoints.listings",
    ],
    ["request", () => client.request("POST", "/x", { bodi: {} } as never), "body"],
    ["request", () => client.request("POST", "/x", { shema: {} } as never), "schema"],
  ])("in the body or input of %s rejects, and nothing is sent: %#", async (_, call, right) => {
    const before = calls.length;
    const error = await rejection(call());
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error.message).toContain(`did you mean \`${right}\`?`);
    expect(calls).toHaveLength(before);
  });

  it("of endpoints says where a newer topic goes", async () => {
    const input = { isActive: true, endpoints: { reviews: url } } as never;
    for (const call of [client.webhookConfig.create, client.webhookConfig.ensure])
      expect((await rejection(call(input))).message).toBe(
        "unknown option `endpoints.reviews`; the known options are `endpoints.bookings`, `endpoints.listings`, `endpoints.messages` (a topic that is newer than this package belongs in otherEndpoints)",
      );
  });

  it("of stay throws", () => {
    const dates = { checkIn: "2026-07-01", checkOut: "2026-07-04" };
    expect(() => stay(dates, { timezone: "UTC" } as object)).toThrow(
      "unknown option `timezone`; did you mean `timeZone`?",
    );
  });
});

describe("checkNoUnknown", () => {
  const names = ["timeout", "maxRetries", "signal"];

  it("passes known names, in any order, and undefined", () => {
    expect(() => checkNoUnknown({ signal: 1, timeout: undefined }, names)).not.toThrow();
    expect(() => checkNoUnknown({}, names)).not.toThrow();
    expect(() => checkNoUnknown(undefined, names)).not.toThrow();
  });

  it.each([null, 5, "timeout", true, ["timeout"]])("refuses what is no object: %j", (given) => {
    expect(() => checkNoUnknown(given, names)).toThrow("the options must be an object");
    expect(() => checkNoUnknown(given, names, ["drain"])).toThrow("drain: must be an object");
  });

  it("names every unknown option, with its path", () => {
    expect(() => checkNoUnknown({ timout: 1, signals: 2 }, names, ["a", 0])).toThrow(
      expect.objectContaining({
        message:
          "unknown option `a.0.timout`; did you mean `a.0.timeout`?; unknown option `a.0.signals`; did you mean `a.0.signal`?",
        issues: [
          { path: ["a", 0, "timout"], message: expect.any(String) },
          { path: ["a", 0, "signals"], message: expect.any(String) },
        ],
      }),
    );
  });

  it("suggests the nearest name, and lists all where none is near", () => {
    const said = (name: string) => {
      try {
        checkNoUnknown({ [name]: 1 }, names);
      } catch (error) {
        return (error as Error).message.split("; ")[1];
      }
      return undefined;
    };
    expect(said("retries")).toBe("did you mean `maxRetries`?");
    expect(said("TIMEOUT")).toBe("did you mean `timeout`?");
    expect(said("singal")).toBe("did you mean `signal`?");
    for (const name of ["colour", "s", "", "__proto__x", "x".repeat(100_000)])
      expect(said(name)).toBe("the known options are `timeout`, `maxRetries`, `signal`");
  });
});

describe("the constructor", () => {
  const issuesOf = (options: Record<string, unknown>): string[] => {
    try {
      new StayhookClient({
        baseUrl: "https://h.example",
        accessToken,
        ...options,
      } as unknown as ClientOptions);
      return [];
    } catch (error) {
      expect(error).toMatchObject({ name: "InvalidArgumentError" });
      expect(String(error)).not.toMatch(/s3cr3t/);
      return (error as { issues: { path: string[] }[] }).issues.map((issue) => issue.path.join("."));
    }
  };

  it.each([
    "https://h.example",
    "https://h.example/api/",
    new URL("https://h.example/x"),
    "http://localhost:3000",
    "http://127.0.0.1",
    "http://127.9.9.9:1/x",
    "http://[::1]:8080",
    "http://app.localhost",
    "HTTPS://H.example",
  ])("takes the base URL %s", (baseUrl) => {
    expect(issuesOf({ baseUrl })).toEqual([]);
  });

  it.each([
    undefined,
    null,
    5,
    "",
    "h.example",
    "/api",
    "ftp://h.example",
    "http://h.example",
    "http://127.0.0.1.evil.example",
    "http://localhost.evil.example",
    "http://0.0.0.0",
    "https://u:s3cr3t@h.example",
    "https://s3cr3t@h.example",
    "https://h.example?s3cr3t=1",
    "https://h.example/?",
    "https://h.example/#",
    "https://h.example#s3cr3t",
    "https:h.example",
  ])("refuses the base URL %s", (baseUrl) => {
    expect(issuesOf({ baseUrl })).toEqual(["baseUrl"]);
  });

  it("takes http on any host with allowInsecureHttp", () => {
    expect(issuesOf({ baseUrl: "http://h.example", allowInsecureHttp: true })).toEqual([]);
    expect(issuesOf({ baseUrl: "http://h.example", allowInsecureHttp: "yes" })).toEqual(["baseUrl"]);
  });

  it.each([
    ["accessToken", { accessToken: undefined }],
    ["accessToken", { accessToken: "" }],
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
    ["models.listing", { models: { listing: 5 } }],
    ["models.bookings", { models: { bookings: {} } }],
    ["headers.x", { headers: { x: "s3cr3t\u0000" } }],
  ])("refuses a bad %s", (path, options) => {
    expect(issuesOf(options)).toEqual([path]);
  });

  it("names every wrong option at once, and rejects missing options", () => {
    expect(issuesOf({ baseUrl: 1, accessToken: 2, timeout: 3, maxRetries: -4 })).toEqual([
      "baseUrl",
      "accessToken",
      "maxRetries",
    ]);
    expect(() => new StayhookClient(undefined as never)).toThrow(
      expect.objectContaining({ name: "InvalidArgumentError" }),
    );
  });
});

describe("the environment", () => {
  afterEach(() => void vi.unstubAllEnvs());

  it("gives the base URL and the token that the options leave out", async () => {
    vi.stubEnv("STAYHOOK_BASE_URL", "https://env.example/api");
    vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "env-token");
    const { calls, fetch } = fakeFetch([new Response("{}")]);
    await new StayhookClient({ fetch }).request("GET", "/x");
    await new StayhookClient({ fetch, baseUrl: "https://own.example", accessToken: "own" }).request(
      "GET",
      "/x",
    );
    expect(calls.map(({ url, init }) => [url, new Headers(init.headers).get("authorization")])).toEqual([
      ["https://env.example/api/x", "Bearer env-token"],
      ["https://own.example/x", "Bearer own"],
    ]);
    expect(() => new StayhookClient()).not.toThrow();
    // An option that is given and wrong is wrong.
    expect(() => new StayhookClient({ accessToken: "" })).toThrow("accessToken: must not be empty");
    expect(() => new StayhookClient({ accessToken: null as never })).toThrow("accessToken: must be a string");
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
  const client = new StayhookClient({
    ...{ baseUrl: "https://h.example", accessToken, fetch, maxRetries: 0, headers: { a: "1" } },
    models: { booking: Booking.extend({ guestName: z.string() }) },
  });

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
  });

  it("checks the options like the constructor", () => {
    expect(() => client.withOptions({ timeuot: 5 } as object)).toThrow("did you mean `timeout`?");
    expect(() => client.withOptions({ accessToken: "" })).toThrow("accessToken: must not be empty");
  });
});
