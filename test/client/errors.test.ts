import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import * as errors from "../../src/client/client-errors.ts";
import { accessToken, clientOf, fakeFetch, platform, type Reply, rejection } from "./support.ts";

const classes = new Map(
  Object.entries(errors) as [string, new (message: string, options?: ErrorOptions) => Error][],
);

const failing = async (reply: Reply) =>
  rejection<errors.APIError>(clientOf(await platform([reply]), { maxRetries: 0 }).bookings.get("A"));

describe("an APIError", () => {
  it.each([
    [400, "BadRequestError"],
    [401, "AuthenticationError"],
    [403, "PermissionDeniedError"],
    [404, "NotFoundError"],
    [410, "NotFoundError"],
    [409, "ConflictError"],
    [422, "UnprocessableEntityError"],
    [429, "RateLimitError"],
    [500, "InternalServerError"],
    [503, "InternalServerError"],
    [599, "InternalServerError"],
    [402, "APIError"],
    [418, "APIError"],
  ] as const)("of status %i is a %s", async (status, name) => {
    const error = await failing({ status });
    expect(error).toBeInstanceOf(classes.get(name));
    expect(error).toBeInstanceOf(errors.APIError);
    expect(error).toBeInstanceOf(errors.StayhookError);
    expect(error.name).toBe(name);
    expect(error.status).toBe(status);
  });

  it("has the status, headers and body of the answer, and the method and path of the request", async () => {
    const error = await failing({
      status: 422,
      json: { error: { message: "no such code" } },
      headers: { "x-request-id": "r-1", "x-a": "b" },
    });
    expect(error).toMatchObject({
      body: { error: { message: "no such code" } },
      requestId: "r-1",
      method: "GET",
      path: "/v2/bookings/A",
    });
    expect(error.headers).toBeInstanceOf(Headers);
    expect(error.headers.get("x-a")).toBe("b");
    expect(error.message).toBe("GET /v2/bookings/A was answered with 422: no such code");
  });

  it.each([
    [{ text: "<h1>Bad</h1>" }, "<h1>Bad</h1>"],
    [{ text: '{"a":1}', headers: { "content-type": "text/plain" } }, { a: 1 }],
    [{ text: '{"a":', headers: { "content-type": "application/json" } }, '{"a":'],
    [{ text: "" }, undefined],
  ])("has the body parsed where it is JSON: %j", async (reply, body) => {
    expect((await failing({ status: 400, ...reply })).body).toEqual(body);
  });

  it.each(["x-request-id", "request-id", "x-correlation-id", "x-amzn-requestid"])(
    "finds the request's id in %s",
    async (name) => {
      expect((await failing({ status: 400, headers: { [name]: "r-2" } })).requestId).toBe("r-2");
    },
  );

  it("keeps its message short", async () => {
    for (const reply of [{ json: { message: "x".repeat(5000) } }, { text: "y".repeat(5000) }]) {
      const error = await failing({ status: 400, ...reply });
      expect(error.message.length).toBeLessThan(300);
      expect(JSON.stringify(error.body).length).toBeGreaterThan(5000);
    }
    const server = await platform([{ status: 302, headers: { location: `/${"z".repeat(5000)}` } }]);
    expect((await rejection(clientOf(server).webhookConfig.delete())).message.length).toBeLessThan(300);
    expect(
      (await rejection(clientOf(server).request("POST", `/${"p".repeat(5000)}`))).message.length,
    ).toBeLessThan(600);
    const odd = await platform([{ json: Array.from({ length: 500 }, () => ({ listingId: 1 })) }]);
    const error = await rejection(clientOf(odd).listings.list());
    expect(error.message.length).toBeLessThan(600);
    expect(error.issues).toHaveLength(500);
    const issues = ["a", "b", "c", "d", "e"].map((name) => ({ path: [name], message: "is missing" }));
    expect(new errors.ResponseValidationError("GET /x", issues, {}).message).toBe(
      "GET /x was answered with an unexpected body: a: is missing; b: is missing; c: is missing; for 2 more, see error.issues",
    );
  });

  it.each([
    ["HTML", `<!doctype html><title>Maintenance</title>${" padding".repeat(100)}`],
    ["cut JSON", '{"bookingCode":"A","stat'],
  ])("says that a 2xx is not JSON, with its first 200 characters: %s", async (_, text) => {
    const client = clientOf(await platform([{ text }]), { maxRetries: 0 });
    const schema = z.object({ n: z.number() });
    for (const call of [
      () => client.bookings.get("A"),
      () => client.listings.list(),
      () => client.webhookConfig.get(),
      () => client.request("GET", "/x", { schema }),
    ]) {
      const error = await rejection(call());
      expect(error).toMatchObject({ name: "ResponseValidationError", code: "invalid_response", body: text });
      expect(error.message).toMatch(
        new RegExp(`unexpected body: is not JSON: .{${Math.min(text.length, 200)}}$`),
      );
      expect(error.message).toContain(text.slice(0, 200));
    }
  });

  it("of status 429 has retryAfter in seconds", async () => {
    expect(await failing({ status: 429, headers: { "retry-after": "120" } })).toMatchObject({
      retryAfter: 120,
    });
    expect(await failing({ status: 429 })).toMatchObject({ retryAfter: undefined });
  });
});

describe("the other errors", () => {
  it("form a hierarchy, with the names of their classes", () => {
    expect(new errors.ConnectionTimeoutError("")).toBeInstanceOf(errors.ConnectionError);
    for (const name of [
      "ConnectionError",
      "ConnectionTimeoutError",
      "AbortError",
      "AccessTokenError",
    ] as const) {
      const error = new (classes.get(name) ?? Error)("said", { cause: 1 });
      expect(error).toBeInstanceOf(errors.StayhookError);
      expect(error).toMatchObject({ name, message: "said", cause: 1 });
    }
    expect(new errors.ResponseValidationError("GET /", [], null)).toBeInstanceOf(errors.StayhookError);
    expect(new errors.InvalidArgumentError([])).toBeInstanceOf(errors.StayhookError);
  });

  it("have a code for each class, which docs/errors lists", () => {
    const init = { status: 404, headers: new Headers(), body: {}, method: "GET", path: "/" };
    const codes = [...classes].flatMap(([name, Class]) => {
      if (!/Error$/.test(name)) return [];
      const isOfApi = Class === (errors.APIError as never) || Class.prototype instanceof errors.APIError;
      const error = isOfApi
        ? new (Class as never as typeof errors.APIError)(init)
        : name === "ResponseValidationError"
          ? new errors.ResponseValidationError("", [], {})
          : name === "InvalidArgumentError"
            ? new errors.InvalidArgumentError([])
            : new Class("");
      return [[name, (error as { code?: string }).code]];
    });
    expect(new Set(codes.map(([, code]) => code)).size).toBe(codes.length);
    const listed = readFileSync(new URL("../../docs/errors/index.md", import.meta.url), "utf8");
    for (const [name, code] of codes)
      expect(listed).toMatch(new RegExp(`^\\| \\[\`${name}\`\\]\\([a-z-]+\\.md\\) \\| \`${code}\` \\|`, "m"));
  });
});

describe("the access token is not shown", () => {
  const shown = (value: unknown): string => {
    const { message = "", stack = "", cause } = (value ?? {}) as Error;
    const headers = value instanceof errors.APIError ? [...value.headers].join() : "";
    return [
      message,
      stack,
      headers,
      String(value),
      JSON.stringify(value),
      inspect(value, { depth: 20, showHidden: true }),
      cause ? shown(cause) : "",
    ].join("\n");
  };
  const secret = "s3cr3t+/token==";
  const echoes: [string, Reply][] = [
    ["in a message", { json: { message: `bad ${secret}` } }],
    ["in a field's name", { json: { [secret]: { [`x ${secret}`]: [`Bearer ${secret}`] } } }],
    [
      "escaped",
      {
        text: `{"message":"${[...secret].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"}`,
      },
    ],
    ["in text", { text: `<b>${secret}</b>` }],
    ["for a URL", { text: `/login?token=${encodeURIComponent(secret)}` }],
    [
      "in headers",
      { headers: { "x-request-id": secret, "www-authenticate": `Bearer ${secret}` }, text: "denied" },
    ],
    ["deep down", { text: `${"[".repeat(50_000)}"${secret}"${"]".repeat(50_000)}` }],
  ];

  it.each(echoes)("where the platform echoes it %s", async (_, reply) => {
    for (const status of [200, 400, 500]) {
      const seen: unknown[] = [];
      const server = await platform([{ status, ...reply }]);
      const client = clientOf(server, {
        accessToken: secret,
        maxRetries: 0,
        onRequest: (i) => seen.push(i),
        onResponse: (i) => seen.push(i),
      });
      for (const call of [
        () => client.bookings.get("A"),
        () => client.listings.list(),
        () => client.webhookConfig.get(),
      ]) {
        const error = await rejection(call());
        if (_ === "deep down") {
          expect(inspect(error, { depth: 20 })).not.toContain(secret);
          continue;
        }
        expect(shown(error)).not.toContain(secret);
        expect(shown(error)).not.toContain(encodeURIComponent(secret));
      }
      expect(shown(seen)).not.toContain(secret);
    }
  });

  it("where a schema repeats it", async () => {
    const server = await platform([{ json: { [secret]: secret } }]);
    const schema = z.record(
      z.string(),
      z.string().refine(() => false, { error: (issue) => `not ${issue.input}` }),
    );
    const error = await rejection(clientOf(server, { accessToken: secret }).request("GET", "/x", { schema }));
    expect(error.issues).toEqual([{ path: ["[redacted]"], message: "not [redacted]" }]);
    expect(shown(error)).not.toContain(secret);
  });

  it("where a schema throws: its error is the cause, as it is", async () => {
    const server = await platform([{ json: { echoed: secret } }]);
    const thrown = new Error("cannot use this");
    const schema = z.looseObject({}).transform(() => {
      throw thrown;
    });
    const error = await rejection(clientOf(server, { accessToken: secret }).request("GET", "/x", { schema }));
    expect(error).toMatchObject({ name: "ResponseValidationError", cause: thrown });
    expect(error.message + error.stack + JSON.stringify(error.issues)).not.toContain(secret);
  });

  it("where text repeats it as JSON writes it", async () => {
    const quoted = 'quoted "tok\\en"';
    const server = await platform([
      { status: 400, text: `could not parse {"token":${JSON.stringify(quoted)},` },
    ]);
    const error = await rejection(clientOf(server, { accessToken: quoted }).bookings.get("A"));
    expect(error.body).toBe('could not parse {"token":"[redacted]",');
  });

  it("where the platform echoes it in a redirect", async () => {
    const server = await platform([
      { status: 302, headers: { location: `https://login.example/?t=${encodeURIComponent(secret)}` } },
    ]);
    const error = await rejection(clientOf(server, { accessToken: secret }).bookings.get("A"));
    expect(error.message).toContain("https://login.example/?t=[redacted]");
    expect(shown(error)).not.toContain(encodeURIComponent(secret));
    const observed: unknown[] = [];
    const within = await platform(({ url }) =>
      url.startsWith("/s3")
        ? { status: 400 }
        : { status: 302, headers: { location: `/${encodeURIComponent(secret)}` } },
    );
    await rejection(
      clientOf(within, { accessToken: secret, onRequest: (info) => observed.push(info) }).bookings.get("A"),
    );
    expect(shown(observed)).not.toContain(encodeURIComponent(secret));
    expect(observed).toHaveLength(2);
  });

  it("where a refreshed token and its predecessor are repeated", async () => {
    const server = await platform(({ headers }) => ({
      status: headers.authorization?.endsWith("old-token") ? 401 : 403,
      text: "old-token new-token",
    }));
    const accessToken = ({ reason }: { reason: string }) =>
      reason === "initial" ? "old-token" : "new-token";
    expect(shown(await rejection(clientOf(server, { accessToken }).bookings.get("A")))).not.toMatch(
      /(old|new)-token/,
    );
  });

  it("a short one neither, but words that contain it are left alone", async () => {
    const server = await platform([{ status: 400, json: { message: "token t1 of client1 is not at1 all" } }]);
    const error = await rejection(clientOf(server, { accessToken: "t1" }).bookings.get("A"));
    expect(error.body).toEqual({ message: "token [redacted] of client1 is not at1 all" });
  });

  it("where the error of the given fetch has it: the error is the cause, as it is", async () => {
    const thrown = Object.assign(new Error(`failed with ${secret}`), { config: { authorization: secret } });
    const { fetch } = fakeFetch([() => Promise.reject(thrown)]);
    const baseUrl = "https://h.example";
    const client = new StayhookClient({ baseUrl, accessToken: secret, fetch, maxRetries: 0 });
    const error = await rejection(client.bookings.get("A"));
    expect(error.name).toBe("ConnectionError");
    expect(error.message).toContain("failed with [redacted]");
    expect(error.cause).toBe(thrown);
  });

  it("by the client itself", () => {
    const client = new StayhookClient({
      baseUrl: "https://h.example",
      accessToken,
      headers: { "x-key": accessToken },
    });
    expect(shown(client)).not.toContain(accessToken);
    expect(shown(client.bookings) + shown(client.webhookConfig)).not.toContain(accessToken);
  });

  it("is not shown in the message of a ConnectionError", async () => {
    for (const [failure, message] of [
      [Object.assign(new Error("x"), { code: "ENOTFOUND" }), "host not found (ENOTFOUND). Is baseUrl right?"],
      [new TypeError("fetch failed", { cause: new Error("bad port") }), "no complete answer (bad port)."],
      [new Error(`failed with ${secret}`), "no complete answer (failed with [redacted])."],
      [Object.assign(new Error("x"), { code: secret }), "no complete answer ([redacted])."],
      [undefined, "no complete answer."],
    ] as const) {
      const { fetch } = fakeFetch([() => Promise.reject(failure)]);
      const baseUrl = `https://h.example/${encodeURIComponent(secret)}/api`;
      const client = new StayhookClient({ baseUrl, accessToken: secret, fetch, maxRetries: 0 });
      const error = await rejection(client.bookings.get("A"));
      expect(error.message).toBe(`GET https://h.example/[redacted]/api/v2/bookings/A: ${message}`);
    }
  });

  it("and neither is the secret in an endpoint's URL", async () => {
    const url = "https://hooks.example/b?key=hunter2-hunter2";
    const server = await platform(({ body }) => ({
      status: 422,
      json: { message: `not reachable: ${url}`, sent: body },
    }));
    const input = { isActive: true, endpoints: { bookings: url } };
    const error = await rejection(clientOf(server).webhookConfig.create(input));
    expect(error.message).toContain("https://hooks.example/b?key=[redacted]");
    expect(shown(error)).not.toContain("hunter2");
  });

  it("and the topic in an endpoint's URL is no secret", async () => {
    const server = await platform(({ method }) =>
      method === "GET" ? { status: 404 } : { status: 500, json: { message: "bookings: unreachable" } },
    );
    const error = await rejection(
      clientOf(server).webhookConfig.ensure({ endpoints: "https://hooks.example/in?key=hunter2-hunter2" }),
    );
    expect(error.message).toContain("bookings: unreachable");
  });
});
