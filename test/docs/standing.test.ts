// Runs the blocks that have all their imports. The test changes only the port.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Server } from "node:http";
import { type AddressInfo, Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { WebhookCallbacks, WebhookHandler } from "stayhook";
import { AuthenticationError, StayhookClient } from "stayhook";
import type { EventStore } from "stayhook/store";
import { createSandbox, createTestEvent, type Sandbox } from "stayhook/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { freePort } from "../support/server-process.ts";
import { extractBlocks, standing } from "./extract.ts";

const generated = join(import.meta.dirname, "generated/standing");
const home = process.cwd();
const SECRET = "a secret of many letters";

const blocks = extractBlocks(standing);
/** The file `webhooks.mjs`, which other blocks import. */
const webhooksFile = blocks.find(({ name }) => name === "twelve-lines")?.code ?? "";

interface Running {
  readonly sandbox: Sandbox;
  readonly port: number;
  readonly exports: Record<string, unknown>;
  /** Exports of `./webhooks.mjs` for the block. */
  readonly base: { readonly webhooks: WebhookHandler; readonly store: EventStore };
}

/** Checks of the result of a block. */
const checks: Record<string, (running: Running) => unknown> = {
  "twelve-lines": async ({ exports }) => {
    const { webhooks } = exports as { webhooks: WebhookHandler };
    await receive(webhooks, { bookingCode: "HX3K9" });
    await webhooks.drain();
    expect(said()).toEqual([expect.stringMatching(/^block HX3K9 /)]);
  },
  app: async ({ sandbox, port, base }) => {
    const url = `http://127.0.0.1:${port}/`;
    await listening(port);
    expect((await post(`${url}?key=wrong`)).status).toBe(401);
    complaints[0]?.mockClear(); // the handler warns about the 401
    const key = `${url}?key=${encodeURIComponent(SECRET)}`;
    await clientOf(sandbox).webhookConfig.ensure({ endpoints: { bookings: key, listings: key } });
    const { bookingCode } = await sandbox.bookings.request();
    await says(/^decide on .* by /);
    await sandbox.bookings.approve(bookingCode);
    await says(new RegExp(`^block ${bookingCode} `));
    await sandbox.bookings.cancel(bookingCode);
    await says(`release ${bookingCode}`);
    const { listingId } = await sandbox.listings.submit();
    await sandbox.listings.publish(listingId);
    await says(`${listingId} is live`);
    await vi.waitFor(async () => expect(await base.store.counts()).toMatchObject({ done: 4 }));
  },
  ensure: async ({ sandbox }) => {
    const { endpoints } = (await clientOf(sandbox).webhookConfig.get()) ?? {};
    const url = `https://example.com/hooks?key=${encodeURIComponent(SECRET)}`;
    expect(endpoints?.bookings).toBe(`${url}&topic=bookings`);
    expect(endpoints?.listings).toBe(`${url}&topic=listings`);
  },
  "at-a-time": async ({ exports }) => {
    const { on } = exports as { on: WebhookCallbacks };
    const timers = new Map<string, Date>();
    const booking = { checkIn: "2027-07-01", checkOut: "2027-07-03" };
    await on.booking?.(createTestEvent("booking.Confirmed", { booking, timers }));
    expect(Object.fromEntries(timers)).toEqual({ "arrival-mail": new Date("2027-06-29T14:00:00Z") });
    const mail = on["booking.timer.arrival-mail"];
    await mail?.(createTestEvent("booking.timer.arrival-mail", { booking }));
    await says(/^mail to HX3K9/);
    await on.booking?.(createTestEvent("booking.Cancelled", { timers }));
    expect(timers.size).toBe(0);
  },
  express: recordsAt("/hooks"),
  fetch: async ({ exports, base }) => {
    const { default: hono } = exports as {
      default: { request(url: string, init: object): Promise<Response> };
    };
    expect(
      (await hono.request(`/hooks?key=${SECRET}`, { method: "POST", body: notification() })).status,
    ).toBe(200);
    expect((await base.webhooks.health()).state).toBe("running");
  },
  "wait-until": async ({ exports, base }) => {
    const { POST } = exports as { POST(request: Request): Promise<Response> };
    const request = new Request(`https://example.com/hooks?key=${SECRET}`, {
      method: "POST",
      body: notification(),
    });
    expect((await POST(request)).status).toBe(200);
    expect(afterwards.length).toBe(1);
    await afterwards[0]?.();
    expect(await base.store.counts()).toMatchObject({ done: 1 });
  },
  atomically: async ({ sandbox, exports }) => {
    const { webhooks } = exports as { webhooks: WebhookHandler };
    const db = new DatabaseSync("calendar.db");
    const stays = () => db.prepare("SELECT checkIn, checkOut FROM stays WHERE bookingCode = 'HX3K9'").all();
    const handleTwice = async () => {
      for (let time = 0; time < 2; time++) await receive(webhooks, { bookingCode: "HX3K9" });
      await webhooks.drain();
    };
    await handleTwice();
    expect(stays()).toEqual([{ checkIn: "2026-07-01", checkOut: "2026-07-04" }]);
    await sandbox.bookings.alter("HX3K9", { checkIn: "2026-07-02", checkOut: "2026-07-05" });
    await handleTwice();
    expect(stays()).toEqual([{ checkIn: "2026-07-02", checkOut: "2026-07-05" }]);
    await sandbox.bookings.cancel("HX3K9");
    await handleTwice();
    expect(stays()).toEqual([]);
    db.close();
    await webhooks.close();
  },
  switch: async ({ exports }) => {
    const { on } = exports as { on: { fallback(event: object): Promise<void> } };
    await on.fallback({ type: "booking.Confirmed", booking: { bookingCode: "HX3K9" } });
    await on.fallback({ type: "message" });
    expect(said()).toEqual(["block HX3K9", "nothing to do for message"]);
  },
  "stay-change": async ({ exports }) => {
    const { on } = exports as { on: WebhookCallbacks };
    const previous = { status: "Confirmed", listingId: 7, checkIn: "2026-07-01", checkOut: "2026-07-03" };
    const booking = { checkIn: "2026-07-01", checkOut: "2026-07-04", listingId: 8 };
    await on.booking?.(createTestEvent("booking.Confirmed", { booking, previous }));
    await on.booking?.(createTestEvent("booking.Cancelled", { booking }));
    expect(said()).toEqual(["free 7 HX3K9", "block 8 HX3K9 2026-07-01 2026-07-04"]);
  },
  "time-zone": async ({ exports }) => {
    const { timeZone } = exports as { timeZone: (booking: { listingId: number }) => string | undefined };
    expect([5717008, 7].map((listingId) => timeZone({ listingId }))).toEqual(["Europe/Paris", undefined]);
  },
  "upgrade-stay-change": async ({ exports }) => {
    const { on } = exports as { on: WebhookCallbacks };
    const previous = { status: "Confirmed", listingId: 7, checkIn: "2026-07-01", checkOut: "2026-07-03" };
    const booking = { checkIn: "2026-07-02", checkOut: "2026-07-04", listingId: 8 };
    await on.booking?.(createTestEvent("booking.Confirmed", { booking, previous }));
    expect(said()).toEqual(["release 7 2026-07-01", "block 8 2026-07-02"]);
  },
  "event-of": async ({ exports }) => {
    const { webhooks } = exports as { webhooks: WebhookHandler };
    const db = new DatabaseSync("codes.db");
    db.exec("CREATE TABLE codes (code TEXT)");
    await receive(webhooks, { bookingCode: "HX3K9" });
    await webhooks.drain();
    expect(db.prepare("SELECT code FROM codes").all()).toEqual([{ code: "HX3K9" }]);
    db.close();
  },
  models: () => expect(said()).toEqual(["Ann"]),
  client: () => expect(said()).toEqual([expect.stringMatching(/^1 Confirmed 200 /)]),
  shutdown: async ({ port, base }) => {
    await listening(port);
    const added = signals.flatMap((signal) =>
      process.listeners(signal).filter((each) => !before.includes(each)),
    );
    expect(added.length).toBe(2);
    const exit = vi.spyOn(process, "exit").mockReturnValue(undefined as never);
    await (added[0] as unknown as () => Promise<void>)();
    expect(exit).toHaveBeenCalledOnce();
    exit.mockRestore();
    await expect(base.store.counts()).rejects.toThrow(/closed/);
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow();
  },
  reconcile: ({ sandbox }) =>
    vi.waitFor(() => expect(sandbox.requests.some(({ path }) => path === "/v2/listings")).toBe(true), {
      timeout: 20_000,
    }),
  probes: async ({ port, base }) => {
    await listening(port);
    const status = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
    expect([await status("/live"), await status("/ready"), await status("/none")]).toEqual([200, 200, 404]);
    expect(await status("//")).toBe(404);
    expect((await post(`http://127.0.0.1:${port}/hooks?key=${encodeURIComponent(SECRET)}`)).status).toBe(200);
    await base.webhooks.close();
    const ready = async () => (await fetch(`http://127.0.0.1:${port}/ready`)).text();
    expect([await status("/live"), await status("/ready"), await ready()]).toEqual([200, 503, "stopped"]);
    await base.store.close();
    expect([await status("/live"), await status("/ready"), await ready()]).toEqual([200, 503, "unavailable"]);
  },
  migrations: () => {
    expect(said()[0]).toMatch(/CREATE SCHEMA[^;]*stayhook/);
    expect(said()[1]).toMatch(/CREATE TABLE[^(]*stayhook_events/);
  },
  alerts: async ({ exports, base }) => {
    const { webhooks } = exports as { webhooks: WebhookHandler };
    await receive(webhooks, { bookingCode: "NONE" });
    for (let attempt = 1; attempt <= 5; attempt++) {
      await webhooks.drain();
      await base.store.replay({ state: "retrying" });
    }
    expect(complaints[1]).toHaveBeenCalledWith(
      expect.stringMatching(/^parked \S+ \(booking:NONE\): not-found$/),
    );
    for (const complaint of complaints) complaint.mockClear();
  },
  "fastify-access-log": (running) => logsNoSecret(running, "/hooks/"),
  "morgan-access-log": (running) => logsNoSecret(running, "/hooks"),
  "rotate-secret": async ({ exports, base }) => {
    const { webhooks } = exports as { webhooks: WebhookHandler };
    const statusWith = async (key: string) => {
      const url = `/hooks?key=${encodeURIComponent(key)}`;
      return (await webhooks.receive({ method: "POST", url, headers: {}, body: notification() })).status;
    };
    expect(await statusWith(SECRET)).toBe(200);
    expect(await statusWith("the secret before this one")).toBe(200);
    expect(await statusWith("the secret before that one")).toBe(401);
    expect(await base.store.counts()).toMatchObject({ parked: 0 });
    complaints[0]?.mockClear();
  },
  "rotate-token": async ({ sandbox, exports }) => {
    const { client } = exports as { client: StayhookClient };
    writeFileSync("access-token", "a token of yesterday\n");
    await expect(client.bookings.get("HX3K9")).rejects.toThrow(AuthenticationError);
    writeFileSync("access-token", `${sandbox.accessToken}\n`);
    expect((await client.bookings.get("HX3K9")).status).toBe("Confirmed");
  },
};

/** Functions that set up the state of a block before it runs. */
const preparations: Record<string, (base: Running["base"]) => unknown> = {
  "rotate-secret": () => vi.stubEnv("WEBHOOK_SECRET_BEFORE", "the secret before this one"),
};

const afterwards: (() => unknown)[] = [];
vi.mock("next/server", () => ({ after: (task: () => unknown) => void afterwards.push(task) }));
const printed = vi.spyOn(console, "log").mockImplementation(() => {});
const complaints = ["warn" as const, "error" as const].map((level) =>
  vi.spyOn(console, level).mockImplementation(() => {}),
);
const said = () => printed.mock.calls.map((call) => call.join(" "));
const servers: NetServer[] = [];
const listen = NetServer.prototype.listen;
NetServer.prototype.listen = function (this: NetServer, ...given: unknown[]) {
  servers.push(this);
  return Reflect.apply(listen, this, given);
};
const signals = ["SIGINT", "SIGTERM"] as const;
let before: unknown[] = [];
let directory = "";

beforeEach(() => {
  before = signals.flatMap((signal) => process.listeners(signal));
  directory = mkdtempSync(join(tmpdir(), "stayhook-standing-"));
  process.chdir(directory);
});
afterEach(() => {
  process.chdir(home);
  rmSync(directory, { recursive: true, force: true });
  for (const server of servers.splice(0)) {
    server.close();
    if (server instanceof Server) server.closeAllConnections();
  }
  for (const signal of signals)
    for (const listener of process.listeners(signal))
      if (!before.includes(listener)) process.off(signal, listener);
  vi.unstubAllEnvs();
  vi.clearAllMocks();
  afterwards.length = 0;
});

rmSync(generated, { recursive: true, force: true });
for (const { name, code } of blocks) {
  if (name === undefined) continue;
  mkdirSync(join(generated, name), { recursive: true });
  writeFileSync(join(generated, name, "block.ts"), code);
  writeFileSync(join(generated, name, "webhooks.mts"), webhooksFile);
}
// The type of `after` comes from test/heavy, which is not above these files.
writeFileSync(
  join(generated, "next-server.d.ts"),
  `declare module "next/server" {
  export const after: typeof import("../../../heavy/node_modules/next/server.js").after;
}
`,
);

test("every block is named, and has a check; every check has a block", () => {
  for (const { document, line, name } of blocks) expect(name, `${document}:${line}`).toBeDefined();
  expect(blocks.map(({ name }) => name).sort()).toEqual(Object.keys(checks).sort());
});

test("the blocks type-check", () => {
  const check = () =>
    // The newest compiler is native, and takes a third of the time of the others.
    execFileSync(join(home, "node_modules/typescript-newest/bin/tsc"), [
      ...["--noEmit", "-p", join(home, "test/docs/standing.json")],
    ]);
  expect(check).not.toThrow();
});

test.each(Object.keys(checks))("%s", async (name) => {
  const sandbox = await account();
  const port = await freePort();
  vi.stubEnv("STAYHOOK_BASE_URL", sandbox.url);
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", sandbox.accessToken);
  vi.stubEnv("WEBHOOK_SECRET", SECRET);
  const file = join(generated, name, "block.ts");
  const code = blocks.find((block) => block.name === name)?.code ?? "";
  writeFileSync(file, code.replaceAll("3000", String(port)));
  const base = await import(/* @vite-ignore */ join(generated, name, "webhooks.mts"));
  await preparations[name]?.(base);
  const exports = await import(/* @vite-ignore */ file);
  try {
    await checks[name]?.({ sandbox, port, exports, base });
    for (const complaint of complaints)
      expect(complaint.mock.calls.flat().filter((line) => !isOfAnEndedBlock(line))).toEqual([]);
  } finally {
    // If the block's handler stays open, it logs during the next test that the store is closed.
    await exports.webhooks?.close({ timeout: 0 });
    // An unfinished event would log a warning during the next test.
    await base.webhooks.close({ timeout: 5000 });
    await base.store.close();
    await sandbox.close();
  }
});

/**
 * Tells whether a log line comes from the reconciler of an earlier block. The test cannot stop a reconciler that its
 * block does not export, so the reconciler's next pass finds the store closed.
 */
function isOfAnEndedBlock(line: unknown): boolean {
  return /the reconciler's pass failed because of the store.*The store is closed/.test(String(line));
}

/** Makes a platform with a booking and a listing. */
async function account(): Promise<Sandbox> {
  const sandbox = createSandbox({ seed: 1 });
  await sandbox.listen();
  await sandbox.bookings.create({
    ...{ bookingCode: "HX3K9", status: "Confirmed", guestName: "Ann" },
    ...{ checkIn: "2026-07-01", checkOut: "2026-07-04" },
  });
  await sandbox.listings.create({ listingId: 5717008, status: "Published", listingName: "By the sea" });
  return sandbox;
}

function clientOf({ url, accessToken }: Sandbox): StayhookClient {
  return new StayhookClient({ baseUrl: url, accessToken });
}

function recordsAt(path: string) {
  return async ({ port, base }: Running) => {
    await listening(port);
    const url = `http://127.0.0.1:${port}${path}?key=${encodeURIComponent(SECRET)}`;
    expect((await post(url)).status).toBe(200);
    await vi.waitFor(async () => expect(await base.store.counts()).toMatchObject({ done: 1 }));
  };
}

async function logsNoSecret(running: Running, path: string) {
  await recordsAt(path)(running);
  await vi.waitFor(() => expect(readFileSync("access.log", "utf8")).toContain(path));
  const log = readFileSync("access.log", "utf8");
  expect(log).not.toContain("key=");
  expect(log).not.toContain(encodeURIComponent(SECRET));
}

async function receive(webhooks: WebhookHandler, fields: object) {
  const url = `/hooks?key=${SECRET}`;
  const result = await webhooks.receive({ method: "POST", url, headers: {}, body: notification(fields) });
  expect(result.status).toBe(200);
}

async function says(line: string | RegExp) {
  const matching = typeof line === "string" ? line : expect.stringMatching(line);
  await vi.waitFor(() => expect(said()).toContainEqual(matching), { timeout: 10_000 });
}

function listening(port: number) {
  const isListening = (server: NetServer) =>
    server.listening && (server.address() as AddressInfo).port === port;
  return vi.waitFor(() => expect(servers.some(isListening)).toBe(true));
}

function notification(fields: object = {}): string {
  return JSON.stringify({ eventId: randomUUID(), timestamp: new Date().toISOString(), ...fields });
}

function post(url: string): Promise<Response> {
  return fetch(url, { method: "POST", body: notification() });
}
