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
import {
  AuthenticationError,
  type Booking,
  createWebhookHandler,
  memoryStore,
  StayhookClient,
} from "stayhook";
import type { Stays } from "stayhook/stays";
import type { EventStore } from "stayhook/store";
import { createSandbox, createTestEvent, type Sandbox } from "stayhook/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { eventually } from "../support/eventually.ts";
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
  "twelve-lines": async ({ sandbox, exports }) => {
    const { webhooks } = exports as { webhooks: WebhookHandler };
    await sandbox.bookings.alter("HX3K9", { checkIn: "2099-07-01", checkOut: "2099-07-04" });
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
    await says(new RegExp(`^release ${bookingCode} `));
    const { listingId } = await sandbox.listings.submit();
    await sandbox.listings.publish(listingId);
    await says(`${listingId} is live`);
    await eventually(async () => expect(await base.store.counts()).toMatchObject({ done: 6 }));
  },
  ensure: async ({ sandbox }) => {
    const { endpoints } = (await clientOf(sandbox).webhookConfig.get()) ?? {};
    const url = `https://example.com/hooks?key=${encodeURIComponent(SECRET)}`;
    expect(endpoints?.bookings).toBe(`${url}&topic=bookings`);
    expect(endpoints?.listings).toBe(`${url}&topic=listings`);
  },
  "at-a-time": async ({ sandbox, exports }) => {
    const { stays } = exports as { stays: Stays<Booking, false> };
    const booking = { checkIn: "2027-07-01", checkOut: "2027-07-03" };
    await sandbox.bookings.alter("HX3K9", booking);
    const webhooks = createWebhookHandler({
      client: clientOf(sandbox),
      store: memoryStore(),
      verify: false,
      timeZone: "Europe/Lisbon",
      stays,
      on: {},
    });
    await receive(webhooks, { bookingCode: "HX3K9" });
    await webhooks.drain();
    expect((await webhooks.things("booking:HX3K9")).map(({ name, state, at }) => [name, state, at])).toEqual([
      ["door-code", "planned", new Date("2027-07-01T14:00:00Z")],
      ["arrival-mail", "planned", new Date("2027-06-29T14:00:00Z")],
      ["cleaning", "planned", new Date("2027-07-03T10:00:00Z")],
    ]);
    await webhooks.close();
  },
  express: recordsAt("/hooks"),
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
    eventually(() => expect(sandbox.requests.some(({ path }) => path === "/v2/listings")).toBe(true)),
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
});

rmSync(generated, { recursive: true, force: true });
for (const { name, code } of blocks) {
  if (name === undefined) continue;
  mkdirSync(join(generated, name), { recursive: true });
  writeFileSync(join(generated, name, "block.ts"), code);
  writeFileSync(join(generated, name, "webhooks.mts"), webhooksFile);
}
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
    await eventually(async () => expect(await base.store.counts()).toMatchObject({ done: 1 }));
  };
}

async function logsNoSecret(running: Running, path: string) {
  await recordsAt(path)(running);
  // A configured URL with a mistake meets no route, and one with a wrong escape meets the framework itself.
  const wrong = [`/hook-${path.length}`, "/%zz"];
  for (const each of wrong)
    for (const method of ["POST", "GET"]) {
      const url = `http://127.0.0.1:${running.port}${each}?key=${encodeURIComponent(SECRET)}`;
      const answer = await fetch(url, { method });
      expect(answer.status, each).toBeGreaterThanOrEqual(400);
      const text = decodeURIComponent((await answer.text()).replace(/%(?![\da-f]{2})/gi, "%25"));
      for (const secret of ["key=", SECRET]) expect(text, each).not.toContain(secret);
    }
  await eventually(() => {
    const log = readFileSync("access.log", "utf8");
    for (const each of [path, wrong[0]!]) expect(log).toContain(each);
  });
  const log = readFileSync("access.log", "utf8");
  for (const secret of ["key=", SECRET, encodeURIComponent(SECRET)]) expect(log).not.toContain(secret);
}

async function receive(webhooks: WebhookHandler, fields: object) {
  const url = `/hooks?key=${SECRET}`;
  const result = await webhooks.receive({ method: "POST", url, headers: {}, body: notification(fields) });
  expect(result.status).toBe(200);
}

async function says(line: string | RegExp) {
  const matching = typeof line === "string" ? line : expect.stringMatching(line);
  await eventually(() => expect(said()).toContainEqual(matching));
}

function listening(port: number) {
  const isListening = (server: NetServer) =>
    server.listening && (server.address() as AddressInfo).port === port;
  return eventually(() => expect(servers.some(isListening)).toBe(true));
}

function notification(fields: object = {}): string {
  return JSON.stringify({ eventId: randomUUID(), timestamp: new Date().toISOString(), ...fields });
}

function post(url: string): Promise<Response> {
  return fetch(url, { method: "POST", body: notification() });
}
