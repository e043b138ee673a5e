import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { statSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import type { WebhookHandler } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { postgresUrl } from "../support/postgres-server.ts";
import { extractBlocks, generateModules } from "./extract.ts";
import { type Given, makeGiven } from "./given.ts";
import { servers } from "./http.ts";
import { logged } from "./loggers.ts";
import { collected } from "./runner.ts";

type Exports = Record<string, (request: Request) => Promise<Response>>;
interface Plan {
  /** Names that the text around the block has introduced. */
  readonly given: readonly (keyof Given)[];
  /** What must be so before the block runs. */
  readonly before?: (given: Given) => unknown;
  /** What must be so after it. */
  readonly shows: (given: Given, exports: Exports) => unknown;
}

const printed = vi.spyOn(console, "log").mockImplementation(() => {});
vi.spyOn(console, "warn").mockImplementation(() => {});
const complaints = vi.spyOn(console, "error").mockImplementation(() => {});
const said = () => printed.mock.calls.map((call) => call.join(" "));

/** Every block of the documents has its line here, and every line here its block. */
const plans: Record<string, Plan> = {
  "twelve-lines": {
    given: [],
    before: (given) => {
      vi.stubEnv("STAYHOOK_BASE_URL", given.platformUrl);
      vi.stubEnv("STAYHOOK_ACCESS_TOKEN", given.platform.accessToken);
      vi.stubEnv("WEBHOOK_SECRET", "s3cret");
    },
    shows: async (given) => {
      const url = await urlOf(servers.at(-1) as Server);
      expect((await post(`${url}/?key=wrong`, { bookingCode: "HX3K9" })).status).toBe(401);
      await given.client.webhookConfig.ensure({
        endpoints: { bookings: `${url}/?key=s3cret`, listings: `${url}/?key=s3cret` },
      });
      const { bookingCode } = await given.platform.bookings.request();
      await vi.waitFor(() => expect(said()).toContainEqual(expect.stringMatching(/^decide on .* by /)));
      await given.platform.bookings.approve(bookingCode);
      await vi.waitFor(() => expect(said()).toContainEqual(expect.stringMatching(/^block /)));
      await given.platform.bookings.cancel(bookingCode);
      await vi.waitFor(() => expect(said()).toContainEqual(expect.stringMatching(/^release /)));
      const { listingId } = await given.platform.listings.submit();
      await given.platform.listings.publish(listingId);
      await vi.waitFor(() => expect(said()).toContain(`${listingId} is live`));
      const kept = sqliteStore(given.database);
      await vi.waitFor(async () => expect(await kept.counts()).toMatchObject({ done: 4 }));
      await kept.close();
    },
  },
  ensure: {
    given: ["client"],
    before: () => vi.stubEnv("WEBHOOK_SECRET", "a secret"),
    shows: async ({ client }) => {
      const url = "https://example.com/hooks?key=a%20secret";
      expect(await client.webhookConfig.get()).toMatchObject({ endpoints: { bookings: url, listings: url } });
    },
  },
  express: {
    given: ["app", "toNodeHandler", "webhooks"],
    shows: async ({ app, store }) => {
      const server = app.listen(0);
      servers.push(server);
      expect((await post(`${await urlOf(server)}/hooks`)).status).toBe(200);
      expect(count(await store.counts())).toBe(1);
    },
  },
  fastify: {
    given: ["fastify: app" as "fastify", "toFastifyPlugin", "webhooks"],
    shows: async ({ fastify, store }) => {
      const { statusCode } = await fastify.inject({ method: "POST", url: "/hooks", payload: notification() });
      expect(statusCode).toBe(200);
      expect(count(await store.counts())).toBe(1);
    },
  },
  fetch: {
    given: ["hono: app" as "hono", "webhooks"],
    shows: async ({ hono, store }) => {
      expect((await hono.request("/hooks", { method: "POST", body: notification() })).status).toBe(200);
      expect(count(await store.counts())).toBe(1);
    },
  },
  "wait-until": {
    given: ["webhooks", "after"],
    shows: async ({ afterwards, store }, { POST }) => {
      const request = new Request("https://example.com/hooks", { method: "POST", body: notification() });
      expect((await POST?.(request))?.status).toBe(200);
      expect(afterwards.length).toBe(1);
      await afterwards[0]?.();
      expect(await store.counts()).toMatchObject({ done: 1 });
    },
  },
  atomically: {
    given: ["createWebhookHandler", "client", "sqliteStore", "stay"],
    shows: async ({ made, database, platform }) => {
      const db = new DatabaseSync(database);
      const stays = () => db.prepare("SELECT checkIn, checkOut FROM stays WHERE bookingCode = 'HX3K9'").all();
      await seesConfirmedTwice(made[0] as WebhookHandler);
      expect(stays()).toEqual([{ checkIn: "2026-07-01", checkOut: "2026-07-04" }]);
      await platform.bookings.alter("HX3K9", { checkIn: "2026-07-02", checkOut: "2026-07-05" });
      await seesConfirmedTwice(made[0] as WebhookHandler);
      expect(stays()).toEqual([{ checkIn: "2026-07-02", checkOut: "2026-07-05" }]);
      await platform.bookings.cancel("HX3K9");
      await seesConfirmedTwice(made[0] as WebhookHandler);
      expect(stays()).toEqual([]);
      db.close();
    },
  },
  reconcile: {
    given: ["client", "webhooks", "store"],
    shows: async ({ platform }) => {
      const listed = () => platform.requests.some(({ path }) => path === "/v2/listings");
      await vi.waitFor(() => expect(listed()).toBe(true), { timeout: 20_000 });
    },
  },
  sqlite: {
    given: ["createWebhookHandler", "client"],
    shows: ({ database }) => expect(statSync(database).mode & 0o777).toBe(0o600),
  },
  "sqlite-tables": {
    given: ["createWebhookHandler", "client"],
    shows: async ({ made, database }) => {
      await seesConfirmedTwice(made[0] as WebhookHandler);
      const db = new DatabaseSync(database);
      expect(db.prepare("SELECT * FROM blocked").all()).toEqual([{ bookingCode: "HX3K9" }]);
      db.close();
    },
  },
  "sqlite-backup": {
    given: [],
    before: async ({ database }) => {
      const store = sqliteStore(database);
      await store.add({ ...event(), eventId: "kept" });
      await store.close();
    },
    shows: async ({ backup }) => {
      const store = sqliteStore(backup);
      expect((await store.get("kept"))?.state).toBe("pending");
      await store.close();
    },
  },
  postgres: {
    given: ["createWebhookHandler", "client"],
    before: () => vi.stubEnv("DATABASE_URL", "postgresql://127.0.0.1:1/none"),
    shows: async ({ made }) => {
      const { status } = await (made[0] as WebhookHandler).receive({ method: "POST", url: "/", headers: {} });
      expect(status).toBe(503);
    },
  },
  "postgres-tables": {
    given: ["createWebhookHandler", "client"],
    before: () => withDatabase("CREATE TABLE blocked (code text)"),
    shows: async ({ made }) => {
      if (process.env.DATABASE_URL === undefined) return;
      await seesConfirmedTwice(made[0] as WebhookHandler);
      await made[0]?.close();
      await endDatabase((rows) => expect(rows).toEqual([{ code: "HX3K9" }]));
    },
  },
  mysql: {
    given: ["createWebhookHandler", "client"],
    before: () => vi.stubEnv("DATABASE_URL", "mysql://127.0.0.1:1/none"),
    shows: async ({ made }) => {
      const { status } = await (made[0] as WebhookHandler).receive({ method: "POST", url: "/", headers: {} });
      expect(status).toBe(503);
    },
  },
  redis: {
    given: ["createWebhookHandler", "client"],
    before: () => vi.stubEnv("REDIS_URL", "redis://127.0.0.1:6379"),
    shows: async ({ made }) => {
      const { status } = await (made[0] as WebhookHandler).receive({ method: "POST", url: "/", headers: {} });
      expect(status).toBe(503);
    },
  },
  switch: { given: ["createWebhookHandler", "client", "store"], shows: () => {} },
  models: { given: ["readTokenFromVault"], shows: () => {} },
  client: { given: ["client"], shows: configured(false) },
  shutdown: {
    given: ["server", "webhooks", "store"],
    shows: async ({ webhooks, store }) => {
      await (process.listeners("SIGTERM").at(-1) as unknown as () => Promise<void>)();
      process.removeAllListeners("SIGTERM");
      await expect(store.counts()).rejects.toThrow(/closed/);
      expect((await webhooks.receive({ method: "POST", url: "/", headers: {} })).status).toBe(503);
    },
  },
  parked: {
    given: ["store"],
    before: async ({ store }) => {
      await store.add({ ...event(), eventId: "given up" });
      const [claim] = await store.claim({ limit: 1, leaseDuration: 1000 });
      if (claim)
        await store.settle(claim, {
          state: "parked",
          reason: "callback",
          entry: { duration: 1, error: "Error: no calendar" },
        });
    },
    shows: async ({ store }) => {
      expect(said()).toContain("given up callback Error: no calendar");
      expect(await store.counts()).toMatchObject({ pending: 1, parked: 0 });
    },
  },
  sandbox: {
    given: ["StayhookClient", "subscriberUrl"],
    shows: async ({ store }) => {
      expect(said().at(-1)).toMatch(/^(\S+: 200,){3}\S+: 200$/);
      expect(count(await store.counts())).toBe(2);
    },
  },
  drain: {
    given: ["webhooks"],
    before: ({ store }) => store.add(event()),
    shows: () => expect(said()).toContain("1 done, 0 to be tried again or parked"),
  },
  observe: { given: ["createWebhookHandler", "client", "store"], shows: () => {} },
  "log-json": {
    given: ["createWebhookHandler", "client", "store"],
    shows: (given) => logsARefusal(given, () => JSON.parse(said().at(-1) as string)),
  },
  "log-pino": {
    given: ["createWebhookHandler", "client", "store"],
    shows: (given) => logsARefusal(given, () => ({ ...logged.at(-1), message: logged.at(-1)?.msg })),
  },
  "log-winston": {
    given: ["createWebhookHandler", "client", "store"],
    shows: (given) => logsARefusal(given, () => logged.at(-1)),
  },
  "contract-vitest": { given: [], shows: () => theContractHolds() },
  // On disk only what the one above does not have: a hundred files at once are a test of the disk.
  "contract-node": { given: [], shows: () => theContractHolds("restart: ") },
};

const modules = generateModules((name) => plans[name]?.given ?? []);
let given: Given;

beforeEach(async () => {
  given = await makeGiven();
});
afterEach(async () => {
  await given.end();
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
  vi.unstubAllEnvs();
  printed.mockClear();
  complaints.mockClear();
});

test("every block is named, and has a plan; every plan has a block", () => {
  const blocks = extractBlocks().filter(({ file }) => file === undefined);
  for (const { document, line, name } of blocks) expect(name, `${document}:${line}`).toBeDefined();
  const names = blocks.map(({ name }) => name as string);
  expect(names.sort()).toEqual(Object.keys(plans).sort());
});

test("they all type-check, as their readers will have them", { timeout: 60_000 }, () => {
  const files = [...modules.values()];
  expect(files.length).toBeGreaterThan(10);
  const check = () =>
    execFileSync(
      process.execPath,
      ["node_modules/typescript/bin/tsc", "--noEmit", "-p", "test/docs/tsconfig.json"],
      {
        encoding: "utf8",
      },
    );
  expect(check).not.toThrow();
});

test.each(Object.keys(plans))("%s", { timeout: 60_000 }, async (name) => {
  const plan = plans[name] as Plan;
  await plan.before?.(given);
  const { run } = await import(/* @vite-ignore */ modules.get(name) as string);
  await plan.shows(given, await run(given));
  expect(complaints).not.toHaveBeenCalled();
});

async function logsARefusal({ made }: Given, line: () => unknown) {
  await made[0]?.receive({ method: "POST", url: "/", headers: {}, body: "no JSON" });
  expect(line()).toMatchObject({ level: expect.anything(), message: expect.stringMatching(/^stayhook: /) });
}

function event() {
  const timestamp = "2026-01-01T00:00:00Z";
  return {
    eventId: randomUUID(),
    ref: null,
    source: "webhook",
    topic: null,
    timestamp,
    notification: "{}",
  } as const;
}

function notification(fields: object = {}) {
  return JSON.stringify({ eventId: randomUUID(), timestamp: "2026-05-01T12:00:00Z", ...fields });
}

function post(url: string, fields: object = {}) {
  return fetch(url, { method: "POST", body: notification(fields) });
}

async function urlOf(server: Server) {
  if (!server.listening) await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function count(counts: Record<string, number>) {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

function configured(isActive: boolean) {
  return async ({ client }: Given) => expect(await client.webhookConfig.get()).toMatchObject({ isActive });
}

async function theContractHolds(topic = "") {
  const cases = collected.splice(0);
  expect(cases.length).toBeGreaterThan(90);
  const chosen = cases.filter(({ name }) => name.startsWith(topic));
  expect(chosen).not.toEqual([]);
  // All at once they would wait for the processor longer than for the store.
  while (chosen.length > 0) await Promise.all(chosen.splice(0, 20).map(({ run }) => run()));
}

/** A database of the block's own, on the server that tests share. */
async function withDatabase(sql: string) {
  const server = await postgresUrl();
  if (server === undefined) return;
  const database = `stayhook_docs_${randomUUID().slice(0, 8)}`;
  const admin = new pg.Client({ connectionString: server });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${database}`);
  await admin.end();
  const url = new URL(server);
  url.pathname = `/${database}`;
  vi.stubEnv("DATABASE_URL", url.href);
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  await client.query(sql);
  await client.end();
}

async function endDatabase(check: (rows: unknown[]) => void) {
  const url = process.env.DATABASE_URL as string;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query("SELECT * FROM blocked");
  await client.end();
  const admin = new pg.Client({ connectionString: await postgresUrl() });
  await admin.connect();
  await admin.query(`DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`);
  await admin.end();
  check(rows);
}

/** Two events of one status, one after the other. */
async function seesConfirmedTwice(webhooks: WebhookHandler) {
  const before = (await webhooks.health()).counts?.done ?? 0;
  for (const done of [before + 1, before + 2]) {
    const body = notification({ bookingCode: "HX3K9" });
    await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
    await vi.waitFor(async () => expect((await webhooks.health()).counts).toMatchObject({ done }));
  }
}
