import { describe, expect, it } from "vitest";
import { call, startSandbox } from "./setup.ts";

const config = "/v2/webhooks/config";
const endpoints = { bookings: "https://example.com/hooks?key=1" };

describe("the configuration endpoints", () => {
  it("create, read, replace, toggle and delete the one configuration", async () => {
    const sandbox = await startSandbox();
    const first = { isActive: true, endpoints };
    expect(await call(sandbox, "POST", config, first)).toMatchObject({ status: 201, body: first });
    expect(sandbox.webhookConfig).toEqual(first);
    expect(await call(sandbox, "GET", config)).toMatchObject({ status: 200, body: first });

    const second = {
      isActive: true,
      endpoints: { listings: "http://localhost:3000/", messages: "https://a.b/c" },
    };
    expect(await call(sandbox, "PUT", config, second)).toMatchObject({ status: 200, body: second });
    expect((await call(sandbox, "GET", config)).body).toEqual(second);

    expect(await call(sandbox, "PATCH", `${config}/toggle?isActive=false`)).toMatchObject({
      status: 200,
      body: { ...second, isActive: false },
    });
    expect((await call(sandbox, "GET", config)).body).toEqual({ ...second, isActive: false });
    expect((await call(sandbox, "PATCH", `${config}/toggle?isActive=true`)).body).toEqual(second);

    expect(await call(sandbox, "DELETE", config)).toMatchObject({ status: 204, body: undefined });
    expect(sandbox.webhookConfig).toBeUndefined();
  });

  it("are not changed through a copy", async () => {
    const sandbox = await startSandbox();
    await call(sandbox, "POST", config, { isActive: true, endpoints });
    (sandbox.webhookConfig!.endpoints as Record<string, string>).bookings = "https://else.where/";
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints });
  });

  it("refuse a second configuration with 409, and keep the first", async () => {
    const sandbox = await startSandbox();
    await call(sandbox, "POST", config, { isActive: true, endpoints });
    const answer = await call(sandbox, "POST", config, { isActive: false, endpoints: {} });
    expect(answer).toMatchObject({ status: 409, body: { error: { code: "conflict" } } });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints });
  });

  it.each([
    ["GET", config],
    ["PUT", config],
    ["DELETE", config],
    ["PATCH", `${config}/toggle?isActive=true`],
  ])("answer %s %s with 404 without a configuration", async (method, path) => {
    const sandbox = await startSandbox();
    const body = method === "PUT" ? { isActive: true, endpoints } : undefined;
    expect(await call(sandbox, method, path, body)).toMatchObject({
      status: 404,
      body: { error: { code: "not_found", message: expect.any(String) } },
    });
    expect(sandbox.webhookConfig).toBeUndefined();
  });

  it.each<[string, unknown, string[][]]>([
    ["no isActive", { endpoints }, [["isActive"]]],
    ["isActive as text", { isActive: "true", endpoints }, [["isActive"]]],
    ["no endpoints", { isActive: true }, [["endpoints"]]],
    ["nothing", {}, [["isActive"], ["endpoints"]]],
    ["endpoints as a list", { isActive: true, endpoints: ["https://a.b"] }, [["endpoints"]]],
    ["a URL that is none", { isActive: true, endpoints: { bookings: "a.b/c" } }, [["endpoints", "bookings"]]],
    ["null for a URL", { isActive: true, endpoints: { bookings: null } }, [["endpoints", "bookings"]]],
    [
      "http elsewhere",
      { isActive: true, endpoints: { listings: "http://a.b/" } },
      [["endpoints", "listings"]],
    ],
    ["ftp", { isActive: true, endpoints: { listings: "ftp://localhost/" } }, [["endpoints", "listings"]]],
    [
      "credentials",
      { isActive: true, endpoints: { messages: "https://a:b@c.d/" } },
      [["endpoints", "messages"]],
    ],
    ["a user", { isActive: true, endpoints: { messages: "https://a@c.d/" } }, [["endpoints", "messages"]]],
    [
      "a password",
      { isActive: true, endpoints: { messages: "https://:b@c.d/" } },
      [["endpoints", "messages"]],
    ],
    ["a list", [], [[]]],
    ["null", null, [[]]],
  ])("refuse a body with %s, naming the field", async (_, body, paths) => {
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

  it.each([
    "http://localhost/",
    "http://api.localhost:1/",
    "http://127.0.0.1:80/a",
    "http://127.9.9.9/",
    "http://[::1]:8/",
  ])("take the loopback URL %s", async (url) => {
    const sandbox = await startSandbox();
    const body = { isActive: true, endpoints: { bookings: url } };
    expect(await call(sandbox, "POST", config, body)).toMatchObject({ status: 201, body });
  });

  it("keep an unknown topic", async () => {
    const sandbox = await startSandbox();
    const body = { isActive: true, endpoints: { payments: "https://a.b/" } };
    expect(await call(sandbox, "POST", config, body)).toMatchObject({ status: 201, body });
  });

  it("refuse a body that is not JSON", async () => {
    const sandbox = await startSandbox();
    expect(await call(sandbox, "POST", config, "{")).toMatchObject({
      status: 400,
      body: { error: { message: "The body is not JSON." } },
    });
  });

  it.each([
    "",
    "?isActive=",
    "?isActive=1",
    "?isActive=TRUE",
    "?isactive=true",
    "?isActive=true&isActive=false",
  ])("refuse to toggle with %j, and change nothing", async (query) => {
    const sandbox = await startSandbox();
    await call(sandbox, "POST", config, { isActive: false, endpoints });
    const answer = await call(sandbox, "PATCH", `${config}/toggle${query}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error.issues[0].path).toEqual(["isActive"]);
    expect(sandbox.webhookConfig?.isActive).toBe(false);
  });
});

describe("the read endpoints", () => {
  it("list the listings and show one", async () => {
    const sandbox = await startSandbox();
    expect((await call(sandbox, "GET", "/v2/listings")).body).toEqual([]);
    const one = await sandbox.listings.submit({ listingId: 7, listingName: "Loft", rooms: 3 });
    const other = await sandbox.listings.create({ status: "Hidden" });
    expect(await call(sandbox, "GET", "/v2/listings")).toMatchObject({ status: 200, body: [one, other] });
    expect((await call(sandbox, "GET", "/v2/listings/7")).body).toEqual({
      listingId: 7,
      listingName: "Loft",
      rooms: 3,
      status: "InReview",
    });
  });

  it.each(["8", "x", "7.0", "+7", "7e0"])("answer 404 for the listing %s", async (id) => {
    const sandbox = await startSandbox();
    await sandbox.listings.submit({ listingId: 7 });
    expect((await call(sandbox, "GET", `/v2/listings/${id}`)).status).toBe(404);
  });

  it("show the present booking", async () => {
    const sandbox = await startSandbox();
    const requested = await sandbox.bookings.request({ guests: 2 });
    const path = `/v2/bookings/${requested.bookingCode}`;
    expect(await call(sandbox, "GET", path)).toMatchObject({ status: 200, body: requested });
    await sandbox.bookings.approve(requested.bookingCode);
    expect((await call(sandbox, "GET", path)).body).toEqual({ ...requested, status: "Confirmed" });
    expect((await call(sandbox, "GET", "/v2/bookings/NONE")).status).toBe(404);
  });

  it("decode a booking code", async () => {
    const sandbox = await startSandbox();
    await sandbox.bookings.request({ bookingCode: "a/b ü" });
    const answer = await call(sandbox, "GET", `/v2/bookings/${encodeURIComponent("a/b ü")}?x=1`);
    expect(answer.body.bookingCode).toBe("a/b ü");
    expect((await call(sandbox, "GET", "/v2/bookings/%ff")).status).toBe(400);
  });
});

describe("every request", () => {
  it.each([
    { authorization: "" },
    { authorization: "Bearer wrong" },
    { authorization: "Basic tok" },
    { authorization: "tok" },
  ])("is refused with 401 with %j", async (headers) => {
    const sandbox = await startSandbox({ accessToken: "tok" });
    for (const path of ["/v2/listings", config, "/v2/bookings/A", "/nowhere"]) {
      const answer = await call(sandbox, "GET", path, undefined, headers);
      expect(answer).toMatchObject({ status: 401, body: { error: { code: "unauthorized" } } });
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    }
  });

  it("without the header is refused, and changes nothing", async () => {
    const sandbox = await startSandbox();
    const body = JSON.stringify({ isActive: true, endpoints });
    const response = await fetch(sandbox.url + config, { method: "POST", body });
    expect(response.status).toBe(401);
    expect(sandbox.webhookConfig).toBeUndefined();
  });

  it("takes a chosen token", async () => {
    const sandbox = await startSandbox({ accessToken: "tok" });
    expect(
      (await call(sandbox, "GET", "/v2/listings", undefined, { authorization: "bearer tok" })).status,
    ).toBe(200);
  });

  it.each(["/v2", "/v2/listings/", "/v2/bookings", "/v2/bookings/", "/v1/listings", "/v2/listings/1/2"])(
    "to %s is answered 404",
    async (path) => {
      const sandbox = await startSandbox();
      expect((await call(sandbox, "GET", path)).status).toBe(404);
    },
  );

  it.each([
    ["PATCH", config, "POST, PUT, GET, DELETE"],
    ["GET", `${config}/toggle?isActive=true`, "PATCH"],
    ["POST", "/v2/listings", "GET"],
    ["DELETE", "/v2/listings/1", "GET"],
    ["PUT", "/v2/bookings/A", "GET"],
  ])("%s %s is answered 405", async (method, path, allow) => {
    const sandbox = await startSandbox();
    const answer = await call(sandbox, method, path);
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe(allow);
  });

  it("gets an id in its answer, and is listed", async () => {
    const sandbox = await startSandbox();
    const first = await call(sandbox, "GET", "/v2/listings?page=1");
    const second = await call(sandbox, "GET", "/v2/bookings/A");
    expect(first.headers.get("content-type")).toBe("application/json");
    expect(first.headers.get("x-request-id")).not.toBe(second.headers.get("x-request-id"));
    expect(first.headers.get("x-request-id")).toMatch(/./);
    expect(sandbox.requests).toEqual([
      { method: "GET", path: "/v2/listings?page=1", status: 200, receivedAt: expect.any(Date) },
      { method: "GET", path: "/v2/bookings/A", status: 404, receivedAt: expect.any(Date) },
    ]);
  });

  it("with a body that is too large is answered 413", async () => {
    const sandbox = await startSandbox();
    expect((await call(sandbox, "POST", config, "x".repeat(1_048_577))).status).toBe(413);
    expect((await call(sandbox, "GET", "/v2/listings")).status).toBe(200);
  });
});
