import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import pg from "pg";
import type { WebhookHandler } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSlots } from "../../src/async.ts";
import { connectProxy } from "../support/connect-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { extractBlocks, generateModules } from "./extract.ts";
import { type Given, makeGiven } from "./given.ts";
import { logged } from "./loggers.ts";
import { collected } from "./runner.ts";
import { scopes } from "./sentry.ts";

type Exports = Record<string, (request: Request) => Promise<Response>>;
interface Plan {
  /** Names that the text around the block introduces. */
  readonly given: readonly (keyof Given)[];
  /** Sets up the state that the block needs. */
  readonly before?: (given: Given) => unknown;
  /** Checks the result of the block. */
  readonly shows: (given: Given, exports: Exports) => unknown;
}

const printed = vi.spyOn(console, "log").mockImplementation(() => {});
vi.spyOn(console, "warn").mockImplementation(() => {});
const complaints = vi.spyOn(console, "error").mockImplementation(() => {});
const said = () => printed.mock.calls.map((call) => call.join(" "));

/** The proxy that the block of docs/client.md goes through. */
let tunnels: Awaited<ReturnType<typeof connectProxy>> | undefined;

/** Each block of the documents has an entry here. Each entry belongs to a block. */
const plans: Record<string, Plan> = {
  sqlite: {
    given: ["createWebhookHandler", "client"],
    shows: ({ database }) => expect(statSync(database).mode & 0o777).toBe(0o600),
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
      expect(status).toBe(400);
    },
  },
  "postgres-tables": {
    given: ["createWebhookHandler", "client"],
    before: () => withDatabase("CREATE TABLE stays (code text, listing int, check_in date, check_out date)"),
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
      expect(status).toBe(400);
    },
  },
  redis: {
    given: ["createWebhookHandler", "client"],
    before: () => vi.stubEnv("REDIS_URL", "redis://127.0.0.1:6379"),
    shows: async ({ made }) => {
      const { status } = await (made[0] as WebhookHandler).receive({ method: "POST", url: "/", headers: {} });
      expect(status).toBe(400);
    },
  },
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
  "client-calls": { given: ["client"], shows: () => expect(said()[0]).toMatch(/^Confirmed \d+ 200 /) },
  "client-new": {
    given: [],
    before: () => {
      vi.stubEnv("STAYHOOK_BASE_URL", "https://api.example.com");
      vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "token");
    },
    shows: () => {},
  },
  "client-loop": {
    given: ["client"],
    before: async ({ platform }) => void (await platform.listings.create({ status: "Published" })),
    shows: () => expect(said()[0]).toMatch(/^\d+ is Published$/),
  },
  "client-with-options": { given: ["client"], shows: () => expect(said()).toEqual(["HX3K9"]) },
  "client-watch": {
    given: ["client"],
    shows: () => expect(said()[0]).toMatch(/^GET \/v2\/bookings\/\{bookingCode\}: 200 in \d+ ms$/),
  },
  proxy: {
    given: [],
    before: async ({ platform }) => {
      tunnels = await connectProxy();
      vi.stubEnv("HTTPS_PROXY", tunnels.url);
      vi.stubEnv("STAYHOOK_BASE_URL", platform.url);
      vi.stubEnv("STAYHOOK_ACCESS_TOKEN", platform.accessToken);
    },
    shows: ({ platform }) => {
      expect(said()[0]).toBe("Confirmed");
      expect(tunnels?.targets).toEqual([new URL(platform.url).host]);
    },
  },
  otel: {
    given: ["createWebhookHandler", "store"],
    before: ({ platform }) => {
      vi.stubEnv("STAYHOOK_BASE_URL", platform.url);
      vi.stubEnv("STAYHOOK_ACCESS_TOKEN", platform.accessToken);
    },
    shows: async (given) => {
      await deliverTo(given.made.at(-1) as WebhookHandler);
      await eventually(() => expect(said()).toContain("block HX3K9"));
    },
  },
  "own-telemetry": {
    given: ["createWebhookHandler", "client", "store"],
    before: ({ platform }) => platform.faults.set([{ route: "GET /v2/bookings/{bookingCode}", delay: 1050 }]),
    shows: async (given) => {
      await deliverTo(given.made.at(-1) as WebhookHandler);
      await eventually(() =>
        expect(said()).toContainEqual(expect.stringMatching(/attempt 1: done after 1\d{3}/)),
      );
    },
  },
  "request-id": {
    given: ["createWebhookHandler", "client", "store"],
    shows: async (_, { POST }) => {
      const body = notification({ bookingCode: "HX3K9" });
      const headers = { "x-request-id": "request-1" };
      await POST!(new Request("http://localhost/hooks", { method: "POST", headers, body }));
      const steps = () =>
        said()
          .filter((line) => line.startsWith("{"))
          .map((line) => JSON.parse(line));
      await eventually(() =>
        expect(steps().map(({ step }) => step)).toEqual(["received", "started", "done"]),
      );
      expect(steps().map(({ requestId }) => requestId)).toEqual(["request-1", undefined, undefined]);
    },
  },
  sentry: {
    given: ["createWebhookHandler", "client", "store"],
    shows: async (given) => {
      await deliverTo(given.made.at(-1) as WebhookHandler);
      await eventually(() => expect(said()).toContain("block HX3K9"));
      expect(scopes).toEqual([{ "stayhook.event": expect.any(String), "stayhook.ref": "booking:HX3K9" }]);
    },
  },
  "contract-vitest": { given: [], shows: () => theContractHolds() },
  // Run only the restart cases. The other cases have run in memory, and a hundred files at once overload the disk.
  "contract-node": { given: [], shows: () => theContractHolds("restart: ") },
};

const modules = generateModules((name) => plans[name]?.given ?? []);
let given: Given;

beforeEach(async () => {
  given = await makeGiven();
});
afterEach(async () => {
  await given.end();
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

test("they all type-check, as their readers will have them", () => {
  const files = [...modules.values()];
  expect(files.length).toBeGreaterThan(10);
  const check = () =>
    // The newest compiler is native, and takes a third of the time of the others.
    execFileSync("node_modules/typescript-newest/bin/tsc", ["--noEmit", "-p", "test/docs/tsconfig.json"], {
      encoding: "utf8",
    });
  expect(check).not.toThrow();
});

test.each(Object.keys(plans))("%s", async (name) => {
  const plan = plans[name] as Plan;
  await plan.before?.(given);
  const { run } = await import(/* @vite-ignore */ modules.get(name) as string);
  await plan.shows(given, await run(given));
  expect(complaints).not.toHaveBeenCalled();
});

async function deliverTo(webhooks: WebhookHandler) {
  const body = notification({ bookingCode: "HX3K9" });
  expect(await webhooks.receive({ method: "POST", url: "/", headers: {}, body })).toMatchObject({
    status: 200,
  });
}

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

async function theContractHolds(topic = "") {
  const cases = collected.splice(0);
  expect(cases.length).toBeGreaterThan(75);
  const chosen = cases.filter(({ name }) => name.startsWith(topic));
  expect(chosen).not.toEqual([]);
  // All cases at once would spend more time waiting for the CPU than for the store.
  const slots = createSlots(30);
  await Promise.all(chosen.map(({ run }) => slots.run(run)));
}

/** Runs `sql` in a new database on the server that tests share. */
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
  const { rows } = await client.query("SELECT code FROM stays");
  await client.end();
  const admin = new pg.Client({ connectionString: await postgresUrl() });
  await admin.connect();
  await admin.query(`DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`);
  await admin.end();
  check(rows);
}

/** Sends two events of one booking, one after the other. The status stays the same. */
async function seesConfirmedTwice(webhooks: WebhookHandler) {
  const before = (await webhooks.health()).counts?.done ?? 0;
  for (const done of [before + 1, before + 2]) {
    const body = notification({ bookingCode: "HX3K9" });
    await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
    await eventually(async () => expect((await webhooks.health()).counts).toMatchObject({ done }));
  }
}
