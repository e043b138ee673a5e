import { HttpResponse, http } from "msw";
import { setupServer } from "msw/node";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import {
  createWebhookHandler,
  InvalidArgumentError,
  memoryStore,
  NotFoundError,
  StayhookClient,
} from "../../src/index.ts";
import { createSandbox, type SandboxOptions } from "../../src/testing/index.ts";
import { sandboxBaseUrl, sandboxHandlers } from "../../src/testing/msw.ts";

const server = setupServer();
beforeAll(() => server.listen({ onUnhandledFrame: "error" }));
afterEach(() => server.resetHandlers());
afterAll(() => server.close());

const hooks = "https://subscriber.example/hooks";

function start(options: SandboxOptions = {}, baseUrl = sandboxBaseUrl) {
  const sandbox = createSandbox(options);
  onTestFinished(() => sandbox.close());
  server.use(...sandboxHandlers(sandbox, { baseUrl }));
  const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken, maxRetries: 0 });
  const calls: string[] = [];
  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    autoStart: false,
    on: { fallback: (event) => void calls.push(event.type) },
  });
  return { sandbox, client, webhooks, calls };
}

describe("sandboxHandlers", () => {
  it("answer the client without a server", async () => {
    const { sandbox, client } = start();
    const endpoints = { bookings: hooks };
    expect(await client.webhookConfig.ensure({ endpoints })).toMatchObject({ action: "created" });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints });
    await expect(client.bookings.get("none")).rejects.toBeInstanceOf(NotFoundError);
    await sandbox.bookings.create({ bookingCode: "a/b ?#%ü", status: "Confirmed" });
    expect(await client.bookings.get("a/b ?#%ü")).toMatchObject({ status: "Confirmed" });
    expect(await client.webhookConfig.delete()).toBeUndefined();
    expect(() => sandbox.url).toThrow("listen");
  });

  it("let another msw handler take the deliveries", async () => {
    const { sandbox, client, webhooks, calls } = start({ delivery: { duplicates: 1 } });
    server.use(http.post(hooks, ({ request }) => webhooks.fetch(request)));
    await client.webhookConfig.ensure({ endpoints: { bookings: hooks } });
    const { bookingCode } = await sandbox.bookings.request();
    await sandbox.settled();
    await webhooks.drain();
    await sandbox.bookings.approve(bookingCode);
    await sandbox.settled();
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
    expect(calls).toEqual(["booking.Request", "booking.Confirmed"]);
    expect(sandbox.deliveries.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  });

  it("can be overridden by a later handler", async () => {
    const { client } = start();
    const rows = [{ listingId: 1, status: "Hidden" }];
    server.use(http.get(`${sandboxBaseUrl}/v2/listings`, () => HttpResponse.json(rows)));
    expect(await client.listings.list()).toEqual(rows);
  });

  it.each([
    "https://api.example.com/stays/",
    "http://localhost:4010",
    new URL("https://a.example/p(1)+q/:x*"),
  ])("answer below the base URL %s only", async (baseUrl) => {
    const { client, sandbox } = start({}, String(baseUrl));
    await sandbox.listings.create({ status: "Hidden", listingId: 7 });
    expect(await client.listings.get(7)).toMatchObject({ status: "Hidden" });
    const outside = new URL("/v2/listings", "https://elsewhere.example");
    server.use(http.get(String(outside), () => HttpResponse.json({ elsewhere: true })));
    expect(await (await fetch(outside)).json()).toEqual({ elsewhere: true });
  });

  it("have the faults of the sandbox", async () => {
    const { sandbox, client } = start();
    await client.webhookConfig.ensure({ endpoints: { bookings: hooks } });
    sandbox.faults.set([{ status: 429, retryAfter: 3 }]);
    await expect(client.listings.list()).rejects.toMatchObject({ name: "RateLimitError", retryAfter: 3 });
    sandbox.faults.set([{ cutOff: true }]);
    // The answer to a DELETE has no body, so the connection breaks before the answer.
    for (const call of [() => client.listings.list(), () => client.webhookConfig.delete()])
      await expect(call()).rejects.toMatchObject({ name: "ConnectionError" });
    sandbox.faults.set([{ delay: 60_000 }]);
    const slow = client.listings.list({ timeout: 30 });
    await expect(slow).rejects.toMatchObject({ name: "ConnectionTimeoutError" });
  });

  it.each(["", "sandbox.test", "ftp://a.example", {} as never])("refuse the base URL %j", (baseUrl) => {
    expect(() => sandboxHandlers(createSandbox(), { baseUrl })).toThrow(InvalidArgumentError);
  });
});
