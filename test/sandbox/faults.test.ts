import { describe, expect, it, onTestFinished } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { InternalServerError, RateLimitError, StayhookClient } from "../../src/index.ts";
import { createFaults } from "../../src/sandbox/faults.ts";
import { createSandbox, type Sandbox, type SandboxOptions } from "../../src/testing/index.ts";

type Ask = (method: string, path: string, body?: unknown) => Promise<Response>;

const carriers: Readonly<Record<string, (sandbox: Sandbox) => Promise<Ask>>> = {
  async server(sandbox) {
    const { url } = await sandbox.listen();
    return (method, path, body) => fetch(url + path, init(method, body));
  },
  async fetch(sandbox) {
    return (method, path, body) => sandbox.fetch(`https://any.example${path}`, init(method, body));
  },
};

const init = (method: string, body: unknown) => ({
  method,
  headers: { authorization: "Bearer sandbox-token" },
  ...(body !== undefined && { body: JSON.stringify(body) }),
});

const config = { isActive: true, endpoints: { bookings: "https://subscriber.example/" } };
const route = "GET /v2/bookings/{bookingCode}";

describe.each(Object.keys(carriers))("over %s", (carrier) => {
  async function start(options: SandboxOptions = {}) {
    const sandbox = createSandbox(options);
    onTestFinished(() => sandbox.close());
    const ask = await carriers[carrier]!(sandbox);
    const { bookingCode } = await sandbox.bookings.create({ bookingCode: "B1", status: "Confirmed" });
    const statuses = async (count: number, path = `/v2/bookings/${bookingCode}`) => {
      const seen: number[] = [];
      for (let index = 0; index < count; index++) {
        const response = await ask("GET", path);
        await response.text();
        seen.push(response.status);
      }
      return seen;
    };
    return { sandbox, ask, statuses };
  }

  it("answers with a status and Retry-After a limited number of times", async () => {
    const { sandbox, ask, statuses } = await start();
    sandbox.faults.set([{ route, status: 503, retryAfter: 2, times: 2 }]);
    expect(await statuses(1, "/v2/listings")).toEqual([200]);
    const response = await ask("GET", "/v2/bookings/B1");
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("2");
    expect(response.headers.get("x-request-id")).toMatch(/./);
    expect(await response.json()).toEqual({
      error: { code: "fault", message: expect.stringContaining("503") },
    });
    expect(await statuses(3)).toEqual([503, 200, 200]);
    expect(sandbox.requests.map(({ fault }) => fault?.status ?? 0)).toEqual([0, 503, 503, 0, 0]);
  });

  it("does not act on a request that it answers with a status", async () => {
    const { sandbox, ask } = await start({ faults: [{ status: 500, times: 1 }] });
    expect((await ask("POST", "/v2/webhooks/config", config)).status).toBe(500);
    expect(sandbox.webhookConfig).toBeUndefined();
    expect((await ask("POST", "/v2/webhooks/config", config)).status).toBe(201);
  });

  it("strikes at a rate that the seed decides, and starts again when it is set again", async () => {
    const faults = [{ status: 429, rate: 0.3 }];
    const { sandbox, statuses } = await start({ seed: 1, faults });
    const seen = await statuses(60);
    const struck = seen.filter((status) => status === 429).length;
    expect(struck).toBeGreaterThan(8);
    expect(struck).toBeLessThan(30);
    sandbox.faults.set(faults);
    expect(await statuses(60)).toEqual(seen);
    expect(await (await start({ seed: 1, faults })).statuses(60)).toEqual(seen);
    expect(await (await start({ seed: 2, faults })).statuses(60)).not.toEqual(seen);
    sandbox.faults.set([{ status: 429, rate: 0 }]);
    expect(await statuses(5)).toEqual([200, 200, 200, 200, 200]);
  });

  it("strikes one record, one path with any method, or all requests", async () => {
    const { sandbox, ask, statuses } = await start();
    await sandbox.bookings.create({ bookingCode: "B2", status: "Confirmed" });
    sandbox.faults.set([{ route: "GET /v2/bookings/B2", status: 502 }]);
    expect(await statuses(1)).toEqual([200]);
    expect(await statuses(1, "/v2/bookings/B2?a=1")).toEqual([502]);
    sandbox.faults.set([{ route: "/v2/webhooks/config", status: 500 }]);
    expect((await ask("PUT", "/v2/webhooks/config", config)).status).toBe(500);
    expect(await statuses(1, "/v2/webhooks/config")).toEqual([500]);
    expect((await ask("PATCH", "/v2/webhooks/config/toggle?isActive=true")).status).toBe(404);
    sandbox.faults.set([{ status: 504 }]);
    expect(await statuses(1, "/anything")).toEqual([504]);
    sandbox.faults.clear();
    expect(await statuses(1)).toEqual([200]);
    expect(sandbox.faults.list()).toEqual([]);
  });

  it("the first fault that strikes decides", async () => {
    const faults = [500, 429].map((status) => ({ route, status, times: 1 }));
    const { statuses, sandbox } = await start({ faults });
    Object.assign(sandbox.faults.list()[0]!, { status: 502 });
    expect(await statuses(3)).toEqual([500, 429, 200]);
    expect(sandbox.faults.list()).toEqual(faults);
  });

  it("delays an answer, and advance() ends the delay", async () => {
    const { sandbox, ask, statuses } = await start({ faults: [{ delay: [40, "60ms"] }] });
    const began = performance.now();
    expect(await statuses(1)).toEqual([200]);
    expect(performance.now() - began).toBeGreaterThanOrEqual(39);

    sandbox.faults.set([{ delay: "1h" }]);
    expect(sandbox.faults.list()).toEqual([{ delay: 3_600_000 }]);
    let answered = false;
    const asking = ask("GET", "/v2/listings").then((response) => {
      answered = true;
      return response;
    });
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(answered).toBe(false);
    // The server may not have received the request yet, so advance the clock more than once.
    while (!answered) {
      await sandbox.advance(3_600_000);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect((await asking).status).toBe(200);
  });

  it("breaks the connection in the body, after it has acted on the request", async () => {
    const { sandbox, ask } = await start({ faults: [{ cutOff: true }] });
    const response = await ask("POST", "/v2/webhooks/config", config);
    expect(response.status).toBe(201);
    await expect(response.text()).rejects.toThrow();
    expect(sandbox.webhookConfig).toEqual(config);
    // This answer has no body.
    await expect(ask("DELETE", "/v2/webhooks/config")).rejects.toThrow(TypeError);
    expect(sandbox.webhookConfig).toBeUndefined();
  });
});

it("a wrong fault is refused, and the earlier faults stay", () => {
  const sandbox = createSandbox({ faults: [{ status: 500 }] });
  expect(() => sandbox.faults.set([{ route: "GET /v2/booking/{bookingCode}", status: 500 }])).toThrow(
    /^faults\.0\.route: must be one of .*GET \/v2\/bookings\/\{bookingCode\}/,
  );
  expect(() => sandbox.faults.set({ status: 500 } as never)).toThrow(InvalidArgumentError);
  expect(sandbox.faults.list()).toEqual([{ status: 500 }]);
  for (const known of ["GET /v2/listings/{id}", "GET /v2/listings/7", "/v2/bookings/{code}", "/v2/listings"])
    sandbox.faults.set([{ route: known, status: 500 }]);
});

it("the client recognizes each fault", async () => {
  const sandbox = createSandbox();
  const client = new StayhookClient({
    baseUrl: "https://any.example",
    accessToken: sandbox.accessToken,
    fetch: sandbox.fetch,
    maxRetries: 0,
  });
  const failing = () => client.listings.list().then(undefined, (error: unknown) => error);
  sandbox.faults.set([{ status: 429, retryAfter: 7 }]);
  const limited = await failing();
  expect(limited).toBeInstanceOf(RateLimitError);
  expect(limited).toMatchObject({ retryAfter: 7 });
  sandbox.faults.set([{ status: 503 }]);
  expect(await failing()).toBeInstanceOf(InternalServerError);
  sandbox.faults.set([{ cutOff: true }]);
  expect(await failing()).toMatchObject({ name: "ConnectionError" });
  sandbox.faults.set([{ delay: 60_000 }]);
  await expect(client.listings.list({ timeout: 20 })).rejects.toMatchObject({
    name: "ConnectionTimeoutError",
  });
  sandbox.faults.set([{ cutOff: true, times: 1 }]);
  expect(await client.listings.list({ maxRetries: 1 })).toEqual([]);
  await sandbox.close();
  await expect(sandbox.fetch("https://any.example/v2/listings")).rejects.toThrow(TypeError);
});

describe("random draws of faults", () => {
  it("of one fault do not depend on other faults", () => {
    const [one, other] = ["GET /v2/listings", route].map((of) => ({ route: of, rate: 0.5, status: 503 }));
    const strikes = (path: string, faults: ReturnType<typeof createFaults>) =>
      Array.from({ length: 40 }, () => faults.strike("GET", path) !== undefined);
    const both = createFaults(7, [one!, other!]);
    const listings = strikes("/v2/listings", both);
    expect(strikes("/v2/bookings/A1", both)).not.toEqual(listings);
    expect(strikes("/v2/listings", createFaults(7, [one!]))).toEqual(listings);
  });

  it("keep each delay within its range", () => {
    const faults = createFaults(7, [{ delay: [100, 2000] }]);
    const delays = Array.from({ length: 40 }, () => faults.strike("GET", "/v2/listings")!.delay);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(100);
    expect(Math.max(...delays)).toBeLessThanOrEqual(2000);
    expect(new Set(delays).size).toBeGreaterThan(20);
  });
});
