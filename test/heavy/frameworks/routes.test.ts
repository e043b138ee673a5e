import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { createApp, toWebHandler } from "h3";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { serve } from "../../adapters/served.ts";
import { driveBookingAndListing, expectRefusals, platform } from "../../examples/support/drive.ts";
import { SECRET } from "../../examples/support/example.ts";
import { eventually } from "../../support/eventually.ts";

const print = vi.spyOn(console, "log").mockImplementation(() => {});
vi.spyOn(console, "warn").mockImplementation(() => {});
beforeEach(() => {
  vi.resetModules();
});
afterEach(() => {
  print.mockClear();
  vi.unstubAllEnvs();
});

/** The framework passes an object that contains the request. Others get Node's objects. */
type Context = { readonly request: Request; readonly params: object };
const routes: Record<string, () => Promise<(context: Context) => Promise<Response>>> = {
  "sveltekit.ts": async () => (await import("../../../examples/routes/sveltekit.ts")).POST,
  "react-router.ts": async () => (await import("../../../examples/routes/react-router.ts")).action,
  "nuxt.ts": async () => {
    const { default: handler } = await import("../../../examples/nuxt.ts");
    const nuxt = toWebHandler(createApp().use("/", handler));
    return ({ request }) => nuxt(request);
  },
  "astro.ts": async () => (await import("../../../examples/routes/astro.ts")).POST,
};

test.each(Object.entries(routes))("%s", async (_, load) => {
  const sandbox = await platform();
  const directory = mkdtempSync(join(tmpdir(), "stayhook-routes-"));
  vi.stubEnv("STAYHOOK_BASE_URL", sandbox.url);
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", sandbox.accessToken);
  vi.stubEnv("WEBHOOK_SECRET", SECRET);
  vi.stubEnv("EVENTS_DB", join(directory, "events.db"));
  const route = await load();
  const { store, webhooks } = await import("../../../examples/routes/webhooks.ts");
  onTestFinished(async () => {
    await webhooks.close();
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const { url } = await serve(getRequestListener((request) => route({ request, params: {} })));
  const hooks = `${url}/hooks?key=${encodeURIComponent(SECRET)}`;
  const output = () => print.mock.calls.map((words) => words.join(" ")).join("\n");
  const said = async (what: string | RegExp) => eventually(() => expect(output()).toMatch(what));
  await driveBookingAndListing(sandbox, {
    hooks,
    said,
    get output() {
      return output();
    },
  });
  await expectRefusals({ url, hooks });
});

test("azure-functions.ts", async () => {
  const sandbox = await platform();
  const directory = mkdtempSync(join(tmpdir(), "stayhook-routes-"));
  vi.stubEnv("STAYHOOK_BASE_URL", sandbox.url);
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", sandbox.accessToken);
  vi.stubEnv("WEBHOOK_SECRET", SECRET);
  vi.stubEnv("EVENTS_DB", join(directory, "events.db"));
  const { HttpRequest } = await vi.importActual<typeof import("@azure/functions")>("@azure/functions");
  const registered: Record<string, { handler(request?: unknown): Promise<{ status: number } | undefined> }> =
    {};
  const keep = (name: string, options: (typeof registered)[string]) => {
    registered[name] = options;
  };
  vi.doMock("@azure/functions", () => ({ app: { http: keep, timer: keep } }));
  onTestFinished(() => void vi.doUnmock("@azure/functions"));
  const { webhooks } = await import("../../../examples/azure-functions.ts");
  onTestFinished(async () => {
    await webhooks.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const { bookingCode } = await sandbox.bookings.instantBook();
  const answer = async (key: string) => {
    const url = `https://app.azurewebsites.net/api/hooks?key=${encodeURIComponent(key)}`;
    const notification = { eventId: randomUUID(), timestamp: new Date().toISOString(), bookingCode };
    const body = { string: JSON.stringify(notification) };
    return (await registered.hooks?.handler(new HttpRequest({ method: "POST", url, body })))?.status;
  };
  expect([await answer(SECRET), await answer("wrong")]).toEqual([200, 401]);
  expect(print.mock.calls.flat()).toContain("block");
  await registered.drain?.handler();
});

test("Next.js: what follows the answer is given to after", async () => {
  const kept: Promise<unknown>[] = [];
  vi.doMock("next/server", () => ({ after: (promise: Promise<unknown>) => void kept.push(promise) }));
  onTestFinished(() => void vi.doUnmock("next/server"));
  const directory = mkdtempSync(join(tmpdir(), "stayhook-routes-"));
  vi.stubEnv("STAYHOOK_BASE_URL", "https://platform.example");
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "t");
  vi.stubEnv("WEBHOOK_SECRET", SECRET);
  vi.stubEnv("EVENTS_DB", join(directory, "events.db"));
  const { POST } = await import("../../../examples/next/app/hooks/route.ts");
  const { webhooks } = await import("../../../examples/next/webhooks.ts");
  onTestFinished(async () => {
    await webhooks.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const url = `https://subscriber.example/hooks?key=${encodeURIComponent(SECRET)}`;
  const body = JSON.stringify({ eventId: randomUUID(), timestamp: "2026-05-01T12:00:00Z" });
  expect((await POST(new Request(url, { method: "POST", body }))).status).toBe(200);
  expect(kept).toHaveLength(1);
  await kept[0];
  expect(await webhooks.health()).toMatchObject({ state: "idle", counts: { done: 1 } });
});
