import { expect, it } from "vitest";
import { call, startSandbox } from "./setup.ts";

const config = "/v2/webhooks/config";
const toggle = `${config}/toggle`;
const endpoints = { bookings: "https://example.com/hooks?key=1" };
const first = { isActive: true, endpoints };
const second = {
  isActive: true,
  endpoints: { listings: "http://localhost:3000/", messages: "https://a.b/c" },
};

/** A request, the status of its answer, and parts of its body. For 405, the methods that are allowed. */
type Step = readonly [request: string, sent: unknown, status: number, body?: string | object | undefined];

const wrongToggle = (query: string): Step => [
  `PATCH ${toggle}${query}`,
  undefined,
  400,
  { error: { issues: [{ path: ["isActive"] }] } },
];
const notFound = { error: { code: "not_found", message: expect.any(String) } };
const scripts: Readonly<Record<string, readonly Step[]>> = {
  "one configuration is created, read, replaced, toggled and deleted": [
    [`POST ${config}`, first, 201, first],
    [`GET ${config}`, undefined, 200, first],
    [`POST ${config}`, { isActive: false, endpoints: {} }, 409, { error: { code: "conflict" } }],
    [`GET ${config}`, undefined, 200, first],
    [`PUT ${config}`, second, 200, second],
    [`PATCH ${toggle}?isActive=false`, undefined, 200, { ...second, isActive: false }],
    [`GET ${config}`, undefined, 200, { ...second, isActive: false }],
    ...["", "?isActive=", "?isActive=1", "?isActive=TRUE", "?isactive=true"].map(wrongToggle),
    wrongToggle("?isActive=true&isActive=false"),
    [`GET ${config}`, undefined, 200, { isActive: false }],
    [`PATCH ${toggle}?isActive=true`, undefined, 200, second],
    [`DELETE ${config}`, undefined, 204, undefined],
    [`GET ${config}`, undefined, 404, notFound],
    [`PUT ${config}`, first, 404, notFound],
    [`DELETE ${config}`, undefined, 404, notFound],
    [`PATCH ${toggle}?isActive=true`, undefined, 404, notFound],
    [`POST ${config}`, "{", 400, { error: { message: "The body is not JSON." } }],
    [`POST ${config}`, { isActive: true, endpoints: { payments: "https://a.b/" } }, 201],
    [`GET ${config}`, undefined, 200, { endpoints: { payments: "https://a.b/" } }],
  ],
  "unknown paths and methods": [
    ...["/v2", "/v2/listings/", "/v2/bookings", "/v2/bookings/", "/v1/listings", "/v2/listings/1/2"].map(
      (path): Step => [`GET ${path}`, undefined, 404],
    ),
    [`PATCH ${config}`, undefined, 405, "POST, PUT, GET, DELETE"],
    [`GET ${toggle}?isActive=true`, undefined, 405, "PATCH"],
    ["POST /v2/listings", undefined, 405, "GET"],
    ["DELETE /v2/listings/1", undefined, 405, "GET"],
    ["PUT /v2/bookings/A", undefined, 405, "GET"],
    ["GET /v2/bookings/%ff", undefined, 400],
    [`POST ${config}`, "x".repeat(1_048_577), 413],
    ...["8", "x", "7.0", "+7", "7e0"].map((id): Step => [`GET /v2/listings/${id}`, undefined, 404]),
    ["GET /v2/bookings/NONE", undefined, 404],
  ],
};

it.each(Object.entries(scripts))("%s", async (_, steps) => {
  const sandbox = await startSandbox();
  for (const [request, sent, status, body] of steps) {
    const [method = "", path = ""] = request.split(" ");
    const answer = await call(sandbox, method, path, sent);
    expect(answer.status, request).toBe(status);
    if (status === 405) expect(answer.headers.get("allow"), request).toBe(body);
    else if (typeof body === "object") expect(answer.body, request).toMatchObject(body);
    if (status === 204) expect(answer.body).toBeUndefined();
  }
});

it.each<[string, unknown, string[][]]>([
  ["no isActive", { endpoints }, [["isActive"]]],
  ["isActive as text", { isActive: "true", endpoints }, [["isActive"]]],
  ["no endpoints", { isActive: true }, [["endpoints"]]],
  ["nothing", {}, [["isActive"], ["endpoints"]]],
  ["endpoints as a list", { isActive: true, endpoints: ["https://a.b"] }, [["endpoints"]]],
  ["a list", [], [[]]],
  ["null", null, [[]]],
  ...["a.b/c", null, "http://a.b/", "ftp://localhost/", "https://a:b@c.d/", "https://a@c.d/"].map(
    (url): [string, unknown, string[][]] => [
      `the URL ${url}`,
      { isActive: true, endpoints: { messages: url } },
      [["endpoints", "messages"]],
    ],
  ),
])("a body with %s is refused, naming the field", async (_, body, paths) => {
  const sandbox = await startSandbox();
  const kept = { isActive: false, endpoints: {} };
  const posted = await call(sandbox, "POST", config, body);
  expect(posted.status).toBe(400);
  expect(posted.body.error.issues.map((issue: { path: string[] }) => issue.path)).toEqual(paths);
  expect(sandbox.webhookConfig).toBeUndefined();
  await call(sandbox, "POST", config, kept);
  expect((await call(sandbox, "PUT", config, body)).status).toBe(400);
  expect(sandbox.webhookConfig).toEqual(kept);
});

it("loopback URLs are taken, and the configuration is not changed through a copy", async () => {
  const sandbox = await startSandbox();
  await call(sandbox, "POST", config, first);
  for (const host of ["localhost", "api.localhost:1", "127.0.0.1:80", "127.9.9.9", "[::1]:8"]) {
    const body = { isActive: true, endpoints: { bookings: `http://${host}/a` } };
    expect(await call(sandbox, "PUT", config, body)).toMatchObject({ status: 200, body });
  }
  const { endpoints: kept } = sandbox.webhookConfig!;
  (sandbox.webhookConfig!.endpoints as Record<string, string>).bookings = "https://else.where/";
  expect(sandbox.webhookConfig?.endpoints).toEqual(kept);
});

it("listings and the present booking are read, whatever the characters of its code", async () => {
  const sandbox = await startSandbox();
  expect((await call(sandbox, "GET", "/v2/listings")).body).toEqual([]);
  const one = await sandbox.listings.submit({ listingId: 7, listingName: "Loft", rooms: 3 });
  const other = await sandbox.listings.create({ status: "Hidden" });
  expect(await call(sandbox, "GET", "/v2/listings")).toMatchObject({ status: 200, body: [one, other] });
  expect((await call(sandbox, "GET", "/v2/listings/7")).body).toEqual({
    ...one,
    rooms: 3,
    status: "InReview",
  });
  const requested = await sandbox.bookings.request({ guests: 2, bookingCode: "a/b ü" });
  const path = `/v2/bookings/${encodeURIComponent("a/b ü")}?x=1`;
  expect((await call(sandbox, "GET", path)).body).toEqual(requested);
  await sandbox.bookings.approve("a/b ü");
  expect((await call(sandbox, "GET", path)).body).toEqual({ ...requested, status: "Confirmed" });
});

it.each(["", "Bearer wrong", "Basic tok", "tok", undefined])(
  "a request with the authorization %j is refused with 401, and changes nothing",
  async (authorization) => {
    const sandbox = await startSandbox({ accessToken: "tok" });
    const headers = authorization === undefined ? {} : { authorization };
    for (const path of ["/v2/listings", config, "/v2/bookings/A", "/nowhere"]) {
      const response = await fetch(sandbox.url + path, {
        method: "POST",
        body: JSON.stringify(first),
        headers,
      });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      const isBearer = authorization?.startsWith("Bearer ");
      const message = isBearer ? "does not know this access token" : "must be Bearer <access token>";
      expect(await response.json()).toMatchObject({
        error: { code: "unauthorized", message: expect.stringContaining(message) },
      });
    }
    expect(sandbox.webhookConfig).toBeUndefined();
    const allowed = await call(sandbox, "GET", "/v2/listings", undefined, { authorization: "bearer tok" });
    expect(allowed.status).toBe(200);
  },
);

it("each request gets an id in its answer, and is listed", async () => {
  const sandbox = await startSandbox();
  const answers = [
    await call(sandbox, "GET", "/v2/listings?page=1"),
    await call(sandbox, "GET", "/v2/bookings/A"),
  ];
  expect(answers[0]?.headers.get("content-type")).toBe("application/json");
  expect(new Set(answers.map(({ headers }) => headers.get("x-request-id") || "none")).size).toBe(2);
  const receivedAt = expect.any(Date);
  expect(sandbox.requests).toEqual([
    { method: "GET", path: "/v2/listings?page=1", status: 200, receivedAt },
    { method: "GET", path: "/v2/bookings/A", status: 404, receivedAt },
  ]);
});
