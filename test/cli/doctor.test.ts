import { createWebhookHandler, memoryStore, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { cli, closed, platform, quiet, receiver, serve } from "./support.ts";

/** Starts a subscriber, with or without a secret. */
async function subscriber(env: Readonly<Record<string, string>>, secret?: string) {
  const store = memoryStore();
  const webhooks = createWebhookHandler({
    client: new StayhookClient({
      baseUrl: env.STAYHOOK_BASE_URL ?? "",
      accessToken: env.STAYHOOK_ACCESS_TOKEN ?? "",
    }),
    store,
    on: {},
    autoStart: false,
    logger: quiet,
    ...(secret === undefined ? {} : { verify: sharedSecret({ query: "key", secret }) }),
  });
  const origin = await serve(toNodeHandler(webhooks));
  onTestFinished(() => webhooks.close());
  return { url: `${origin}/hooks?key=s3cret`, store };
}

interface Report {
  readonly ok: boolean;
  readonly wouldRecord?: { readonly eventId: string };
  readonly recorded?: { readonly eventId: string };
  readonly checks: readonly { readonly check: string; readonly state: string; readonly detail: string }[];
}

async function doctor(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout } = await cli(["doctor", "--json", ...args], { env });
  const report: Report = JSON.parse(stdout);
  const states = Object.fromEntries(report.checks.map(({ check, state }) => [check, state]));
  return { code, report, states };
}

describe("doctor", () => {
  test("passes a correct setup, and the endpoint records nothing", async () => {
    const { env } = await platform();
    const { url, store } = await subscriber(env, "s3cret");
    await cli(["config", "set", "--bookings", url, "--listings", url], { env });
    const { code, states, report } = await doctor(env);
    expect(states).toEqual({
      "access token": "passed",
      clock: "passed",
      configuration: "passed",
      "bookings, listings: https": "warned",
      "bookings, listings: answers": "passed",
      "bookings, listings: refuses a wrong secret": "passed",
      "bookings, listings: refuses a malformed body": "passed",
      "bookings, listings: delivery": "skipped",
    });
    expect({ code, ok: report.ok }).toEqual({ code: 0, ok: true });
    expect(report.wouldRecord).toMatchObject({ bookingCode: null, listingId: null });
    expect(await store.list({ limit: 10 })).toEqual([]);
    expect(JSON.stringify(report)).not.toContain("s3cret");
  });

  test("with --deliver prints a notification and sends it twice", async () => {
    const { env } = await platform();
    const { url, store } = await subscriber(env, "s3cret");
    await cli(["config", "set", "--bookings", url, "--listings", url], { env });
    const { code, report } = await doctor(env, "--deliver");
    expect(code).toBe(0);
    const deliveries = report.checks.filter(({ check }) => check.endsWith(": delivery"));
    expect(deliveries.map(({ state }) => state)).toEqual(["passed", "passed"]);
    expect(await store.list({ limit: 10 })).toMatchObject([{ eventId: report.recorded?.eventId, ref: null }]);

    const { stdout, stderr } = await cli(["doctor", "--deliver"], { env });
    const [, eventId = ""] = /"eventId":"([^"]+)"/.exec(stderr) ?? [];
    expect(await store.get(eventId)).toBeDefined();
    expect(stdout).toMatch(/^✓ access token: /);
  });

  test("ends with the exit code that other commands have for the same cause", async () => {
    const { sandbox, env } = await platform();
    const missing = await serve((_request, response) => response.writeHead(404).end());
    const page = await serve((_request, response) => response.end("<html>"));
    for (const [given, status, expected] of [
      [{ ...env, STAYHOOK_ACCESS_TOKEN: "wr0ng" }, undefined, { code: 3, check: "access token" }],
      [env, 403, { code: 3, check: "access token" }],
      [env, 429, { code: 5, check: "platform" }],
      [env, 503, { code: 5, check: "platform" }],
      [env, 418, { code: 1, check: "platform" }],
      [{ ...env, STAYHOOK_BASE_URL: await closed() }, undefined, { code: 5, check: "platform" }],
      [{ ...env, STAYHOOK_BASE_URL: missing }, undefined, { code: 4, check: "base URL" }],
      [{ ...env, STAYHOOK_BASE_URL: page }, undefined, { code: 1, check: "base URL" }],
      [{ ...env, STAYHOOK_ACCESS_TOKEN: "" }, undefined, { code: 2, check: undefined }],
    ] as const) {
      // The client does not retry, because it never waits as long as this retryAfter.
      sandbox.faults.set(status === undefined ? [] : [{ status, retryAfter: 3600 }]);
      const { code, stdout } = await cli(["doctor", "--json"], { env: given });
      // The platform's text ends with a period. Doctor must not add a period or a colon after it.
      expect(stdout).not.toMatch(/\.[.:]/);
      const check = stdout === "" ? undefined : JSON.parse(stdout).checks[0].check;
      expect({ code, check }).toEqual(expected);
      expect((await cli(["listings"], { env: given })).code).toBe(expected.code);
    }
  });

  test("ends with the exit code of the first failed check", async () => {
    const { env } = await platform();
    const { code, report } = await doctor({ ...env, STAYHOOK_ACCESS_TOKEN: "wr0ng" }, "--to", await closed());
    expect(code).toBe(3);
    const failed = report.checks.filter(({ state }) => state === "failed");
    expect(failed.map(({ check }) => check)).toEqual(["access token", "endpoint: answers"]);
    expect(Object.keys(failed[0]!)).toEqual(["check", "state", "detail"]);
  });

  test("does not take a 404 for an accepted token, and asks about the base URL", async () => {
    const origin = await serve((_request, response) => response.writeHead(404).end());
    const env = { STAYHOOK_BASE_URL: `${origin}/api`, STAYHOOK_ACCESS_TOKEN: "t" };
    const { code, stdout } = await cli(["doctor"], { env });
    expect(code).toBe(4);
    expect(stdout.trim().split("\n")).toEqual([
      `✗ base URL: GET ${origin}/api/v2/listings was answered with 404. Is the base URL right? Check STAYHOOK_BASE_URL or --base-url.`,
      "✓ clock: The clocks of this machine and the platform agree.",
    ]);
  });

  test("accepts the token of an account whose listings are invalid, with a warning", async () => {
    const { sandbox, env } = await platform();
    await sandbox.listings.create({ listingId: 7, status: "Hidden" });
    const body = JSON.stringify([{ listingId: "none" }]);
    const proxy = await serve(async (request, response) => {
      if (request.url === "/v2/listings")
        return response.setHeader("content-type", "application/json").end(body);
      const { authorization = "" } = request.headers;
      const answer = await fetch(`${sandbox.url}${request.url}`, { headers: { authorization } });
      return response.writeHead(answer.status).end();
    });
    const { states } = await doctor({ ...env, STAYHOOK_BASE_URL: proxy });
    expect(states).toMatchObject({ "access token": "warned", configuration: "failed" });
  });

  test("fails if the configuration is missing or off, and warns of a topic without a URL", async () => {
    const { env } = await platform();
    expect(await doctor(env)).toMatchObject({ code: 1, states: { configuration: "failed" } });
    const { url } = await subscriber(env, "s3cret");
    await cli(["config", "set", "--bookings", url, "--inactive"], { env });
    expect(await doctor(env)).toMatchObject({
      code: 1,
      states: { configuration: "failed", endpoints: "warned" },
    });
  });

  test("checks the configured endpoint, not an exported one: a dead endpoint fails", async () => {
    const { env } = await platform();
    const { url } = await subscriber(env, "s3cret");
    const dead = `${await closed()}/hooks?key=s3cret`;
    await cli(["config", "set", "--bookings", dead, "--listings", dead], { env });
    for (const name of ["STAYHOOK_TARGET", "STAYHOOK_ENDPOINT"])
      expect(await doctor({ ...env, [name]: url }), name).toMatchObject({
        code: 1,
        states: { "bookings, listings: answers": "failed" },
      });
    expect(await doctor(env, "--to", url)).toMatchObject({
      code: 0,
      states: { "endpoint: answers": "passed" },
    });
  });

  test("warns if the configured URL is not the URL in STAYHOOK_ENDPOINT", async () => {
    const { env } = await platform();
    const { url } = await subscriber(env, "s3cret");
    await cli(["config", "ensure", "--to", url], { env });
    expect((await doctor({ ...env, STAYHOOK_ENDPOINT: url })).states).not.toHaveProperty("endpoints");
    await cli(["config", "set", "--bookings", url, "--listings", `${url}x`], { env });
    for (const [expected, topics] of [
      [url, "listings"],
      ["nonsense", "bookings and listings"],
    ] as const) {
      const { code, report } = await doctor({ ...env, STAYHOOK_ENDPOINT: expected });
      const found = report.checks.find(({ check }) => check === "endpoints");
      expect(found).toMatchObject({
        state: "warned",
        detail: expect.stringContaining(`for ${topics} is not`),
      });
      expect(JSON.stringify({ code, report })).not.toContain("s3cret");
    }
  });

  test("fails if the endpoint accepts any secret", async () => {
    const { env } = await platform();
    const { url, store } = await subscriber(env);
    const { code, states } = await doctor(env, "--to", url);
    expect(code).toBe(1);
    expect(states).toMatchObject({ "endpoint: refuses a wrong secret": "failed" });
    expect(await store.list({ limit: 10 })).toEqual([]);
  });

  test("tries a wrong value for each parameter of the query", async () => {
    const { env } = await platform();
    const { url } = await subscriber(env, "s3cret");
    const { states } = await doctor(env, "--to", url.replace("?", "?topic=bookings&"));
    expect(states).toMatchObject({ "endpoint: refuses a wrong secret": "passed" });
  });

  test("tries a wrong path if the secret is in the path", async () => {
    const { env } = await platform();
    const origin = await serve(({ url }, response) =>
      response.writeHead(url === "/hooks/s3cret" ? 400 : 404).end(),
    );
    expect((await doctor(env, "--to", `${origin}/hooks/s3cret`)).states).toMatchObject({
      "endpoint: refuses a wrong secret": "passed",
      "endpoint: refuses a malformed body": "passed",
    });
  });

  test("fails if the endpoint refuses the configured secret", async () => {
    const { env } = await platform();
    const { url } = await subscriber(env, "another");
    const { states } = await doctor(env, "--to", url);
    expect(states).toMatchObject({
      "endpoint: refuses a wrong secret": "passed",
      "endpoint: refuses a malformed body": "failed",
    });
  });

  test("fails if the endpoint accepts a malformed body, serves nothing, or does not answer", async () => {
    const { env } = await platform();
    const careless = await serve((_request, response) => response.writeHead(200).end());
    expect((await doctor(env, "--to", careless)).states).toMatchObject({
      "endpoint: refuses a wrong secret": "failed",
      "endpoint: refuses a malformed body": "failed",
    });
    const empty = await serve((_request, response) => response.writeHead(404).end());
    expect((await doctor(env, "--to", empty)).states).toMatchObject({
      "endpoint: refuses a malformed body": "failed",
    });
    const broken = await serve((_request, response) => response.writeHead(500).end());
    expect((await doctor(env, "--to", broken)).states).toMatchObject({ "endpoint: answers": "failed" });
    const mute = await serve((request) => void request.socket.destroy());
    expect((await doctor(env, "--to", mute)).states).toMatchObject({ "endpoint: answers": "failed" });
  });

  test("fails if no answer comes within 30 s, and warns of a slow answer", async () => {
    const { env } = await platform();
    const { url } = await subscriber(env, "s3cret");
    await cli(["config", "set", "--bookings", url, "--listings", url], { env });
    let now = 0;
    // Only requests to the endpoint are timed with this clock.
    const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 11_000));
    onTestFinished(() => clock.mockRestore());
    const late = await doctor(env, "--deliver");
    clock.mockRestore();
    expect(late).toMatchObject({ code: 0, states: { "bookings, listings: answers": "warned" } });
    const deliveries = late.report.checks.filter(({ check }) => check.endsWith(": delivery"));
    expect(deliveries.map(({ state }) => state)).toEqual(["warned", "warned"]);

    const never = await serve(() => {});
    const timeout = AbortSignal.timeout;
    const timeouts = vi
      .spyOn(AbortSignal, "timeout")
      .mockImplementation((ms) => timeout.call(AbortSignal, ms === 30_000 ? 50 : ms));
    onTestFinished(() => timeouts.mockRestore());
    const { report } = await doctor(env, "--to", `${never}/?key=s3cret`);
    expect(report.checks.at(-1)).toMatchObject({
      check: "endpoint: answers",
      state: "failed",
      detail: expect.stringContaining("no answer within 30 s"),
    });
    expect(JSON.stringify(report)).not.toContain("s3cret");
  });

  test("sends only bodies that no endpoint can record", async () => {
    const { env } = await platform();
    const { url, received } = await receiver();
    for (const to of [url, `${url}?key=s3cret`]) await cli(["doctor", "--to", to], { env });
    for (const body of received()) expect(["", "{}", '{"eventId":']).toContain(body);
    expect(received()).toHaveLength(6);
  });

  test("fails if the URL is not https", async () => {
    const { env } = await platform();
    const { states } = await doctor(env, "--to", "http://stayhook.invalid/hooks");
    expect(states).toMatchObject({ "endpoint: https": "failed", "endpoint: answers": "failed" });
  });

  test.each([
    [-40, "passed", "agree."],
    [-3600, "failed", "3600 s ahead of"],
    [+3600, "failed", "3600 s behind"],
  ])("compares the clocks: the platform's is %i s off", async (seconds, state, text) => {
    const date = new Date(Date.now() + seconds * 1000).toUTCString();
    const baseUrl = await serve((_request, response) => {
      response.writeHead(404, { date }).end();
    });
    const { report } = await doctor({ STAYHOOK_BASE_URL: baseUrl, STAYHOOK_ACCESS_TOKEN: "t" });
    const clock = report.checks.find(({ check }) => check === "clock");
    expect(clock).toMatchObject({ state });
    // The answer takes time, so the difference may be a few seconds off.
    expect(clock?.detail.replace(/360\d|3599/, "3600")).toContain(text);
  });
});
