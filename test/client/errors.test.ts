import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as errors from "../../src/client/client-errors.ts";
import { answering, clientOf, fakeFetch, platform, type Reply, rejection } from "./support.ts";

const failing = async (reply: Reply) =>
  rejection<errors.APIError>((await answering(reply)).bookings.get("A"));

describe("an APIError", () => {
  it.each([
    [400, errors.BadRequestError],
    [401, errors.AuthenticationError],
    [403, errors.PermissionDeniedError],
    [404, errors.NotFoundError],
    [410, errors.NotFoundError],
    [409, errors.ConflictError],
    [422, errors.UnprocessableEntityError],
    [429, errors.RateLimitError],
    [500, errors.InternalServerError],
    [599, errors.InternalServerError],
    [402, errors.APIError],
  ])("of status %i has its own class", async (status, Class) => {
    const error = await failing({ status });
    expect(error.constructor).toBe(Class);
    expect(error).toBeInstanceOf(errors.APIError);
    expect(error).toBeInstanceOf(errors.StayhookError);
    expect(error).toMatchObject({ name: Class.name, status });
  });

  it("keeps its body, headers and valid rows out of log lines", async () => {
    const secretly = async (error: unknown, hidden: readonly string[]) => {
      const [{ default: pino }, lines] = [await import("pino"), [] as string[]];
      pino({}, { write: (line: string) => void lines.push(line) }).error({ err: error });
      const shown = { ...(error as object) };
      for (const name of hidden) expect(shown).not.toHaveProperty(name);
      expect(`${lines}${JSON.stringify(error)}`).not.toContain("marker");
      return error as errors.ResponseValidationError & errors.APIError;
    };
    const refused = await failing({ status: 422, json: { note: "marker" }, headers: { "x-a": "marker" } });
    const { body, headers } = await secretly(refused, ["body", "headers"]);
    expect([body, headers.get("x-a")]).toEqual([{ note: "marker" }, "marker"]);
    const rows = Array.from({ length: 5_000 }, (_, listingId) => ({ listingId, status: "marker" }));
    const client = await answering({ json: [...rows, { listingId: "x" }] });
    const invalid = await secretly(await rejection(client.listings.list() as Promise<unknown>), [
      "body",
      "valid",
    ]);
    expect(invalid.valid).toHaveLength(5_000);
    expect(invalid.body).toContain("marker");
  });

  it("says that there is no such record if a 200 without a record says no more", async () => {
    expect((await failing({ status: 200, json: null })).message).toMatch(/: there is no such record$/);
  });

  it("has the status, headers and body of the answer, and the method and path of the request", async () => {
    const json = { error: { message: "no such code" } };
    const error = await failing({ status: 422, json, headers: { "x-a": "b" } });
    expect(error).toMatchObject({ body: json, method: "GET", path: "/v2/bookings/A", requestId: undefined });
    expect(error.headers.get("x-a")).toBe("b");
    expect(error.message).toBe("GET /v2/bookings/A was answered with 422: no such code");
  });

  it.each<[Reply, unknown]>([
    [{ text: "<h1>Bad</h1>" }, "<h1>Bad</h1>"],
    [{ text: '{"a":1}', headers: { "content-type": "text/plain" } }, { a: 1 }],
    [{ text: '{"a":', headers: { "content-type": "application/json" } }, '{"a":'],
    [{ text: "" }, undefined],
  ])("has the parsed body if it is JSON: %j", async (reply, body) => {
    expect((await failing({ status: 400, ...reply })).body).toEqual(body);
  });

  it("has the request's id from the usual headers, and the seconds of Retry-After", async () => {
    for (const name of ["x-request-id", "request-id", "x-correlation-id", "x-amzn-requestid"])
      expect((await failing({ status: 400, headers: { [name]: "r-2" } })).requestId).toBe("r-2");
    const headers = { "retry-after": "120" };
    expect(await failing({ status: 429, headers })).toMatchObject({ retryAfter: 120 });
    expect(await failing({ status: 429 })).toMatchObject({ retryAfter: undefined });
  });

  it("keeps its message short", async () => {
    const long = "x".repeat(5000);
    for (const reply of [
      { status: 400, json: { message: long } },
      { status: 302, headers: { location: `/${long}` } },
    ])
      expect((await failing(reply)).message.length).toBeLessThan(300);
    const path = (await answering({ status: 400 })).request("POST", `/${long}`);
    expect((await rejection(path)).message.length).toBeLessThan(600);
    const issues = ["a", "b", "c", "d", "e"].map((name) => ({ path: [name], message: "is missing" }));
    expect(new errors.ResponseValidationError("GET /x", issues, {}).message).toBe(
      "GET /x was answered with an unexpected body: a: is missing; b: is missing; c: is missing; for 2 more, see error.issues",
    );
  });
});

it.each([
  ["HTML", `<!doctype html><title>Maintenance</title>${" padding".repeat(100)}`],
  ["cut JSON", '{"bookingCode":"A","stat'],
])("a 2xx that is not JSON is shown with its first 200 characters: %s", async (_, text) => {
  const client = await answering({ text });
  const schema = z.object({ n: z.number() });
  for (const call of [
    () => client.bookings.get("A"),
    () => client.listings.list(),
    () => client.webhookConfig.get(),
    () => client.request("GET", "/x", { schema }),
  ]) {
    const error = await rejection(call());
    expect(error).toMatchObject({ name: "ResponseValidationError", body: text });
    expect(error.message.split("unexpected body: ")[1]).toBe(`is not JSON: ${text.slice(0, 200)}`);
  }
});

it("each class has its own name and code, which docs/errors lists", () => {
  const init = { status: 404, headers: new Headers(), body: {}, method: "GET", path: "/" };
  const made = Object.entries(errors).flatMap(([name, Class]) => {
    if (!name.endsWith("Error")) return [];
    if (Class === errors.ResponseValidationError) return [new errors.ResponseValidationError("", [], {})];
    if (Class === errors.InvalidArgumentError) return [new errors.InvalidArgumentError([])];
    const isOfApi = Class === errors.APIError || Class.prototype instanceof errors.APIError;
    const argument = isOfApi ? init : "said";
    return [
      new (Class as new (given: unknown, options: ErrorOptions) => errors.StayhookError)(argument, {
        cause: 1,
      }),
    ];
  });
  expect(made.length).toBeGreaterThan(12);
  expect(new Set(made.map(({ code }) => code)).size).toBe(made.length);
  const listed = readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8");
  for (const error of made) {
    expect(error).toBeInstanceOf(errors.StayhookError);
    expect(error.name).toBe(error.constructor.name);
    expect(listed).toContain(`\n| \`${error.name}\` | \`${error.code}\` |`);
  }
  expect(new errors.ConnectionTimeoutError("", { cause: 1 })).toBeInstanceOf(errors.ConnectionError);
});

const causedByItself = new Error("caused by itself");
causedByItself.cause = causedByItself;

it.each([
  [Object.assign(new Error("x"), { code: "ENOTFOUND" }), "host not found (ENOTFOUND). Is baseUrl right?"],
  [
    Object.assign(new Error("x"), { code: "EAI_AGAIN" }),
    "DNS is not ready yet (EAI_AGAIN). Try again in a moment. If the error stays, check the DNS server of this machine or container.",
  ],
  [new TypeError("fetch failed", { cause: new Error("bad port") }), "no complete answer (bad port)."],
  [new Error("failed with a-long-token"), "no complete answer (failed with [redacted])."],
  [Object.assign(new Error("x"), { code: "a-long-token" }), "no complete answer ([redacted])."],
  [undefined, "no complete answer."],
  [causedByItself, "no complete answer (caused by itself)."],
])(
  "a ConnectionError says why, without the token, and has the thrown error as its cause: %s",
  async (cause, said) => {
    const { fetch } = fakeFetch([() => Promise.reject(cause)]);
    const url = "https://h.example/a-long-token/api";
    const client = clientOf({ url, requests: [] }, { accessToken: "a-long-token", fetch, maxRetries: 0 });
    const error = await rejection(client.bookings.get("A"));
    expect(error.name).toBe("ConnectionError");
    expect(error.message).toBe(`GET https://h.example/[redacted]/api/v2/bookings/A: ${said}`);
    expect(error.cause).toBe(cause);
  },
);

it("the error of a user's schema is the cause, unchanged", async () => {
  const server = await platform([{ json: { n: 1 } }]);
  const thrown = new Error("mine");
  const schema = z.looseObject({}).transform(() => {
    throw thrown;
  });
  const error = await rejection(clientOf(server).request("GET", "/x", { schema }));
  expect(error).toMatchObject({ name: "ResponseValidationError", cause: thrown });
});
