// Runs each file of examples/orm beside a sandbox, on a real database, with the ORM that its reader has.
import { execFileSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import knex from "knex";
import { Kysely, PostgresDialect, sql as raw } from "kysely";
import mysql from "mysql2/promise";
import pg from "pg";
import { createWebhookHandler, memoryStore, StayhookClient, type WebhookHandler } from "stayhook";
import { postgresStore } from "stayhook/postgres";
import type { EventStore } from "stayhook/store";
import { createSandbox } from "stayhook/testing";
import { afterEach, expect, expectTypeOf, onTestFinished, test, vi } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { mysqlUrl } from "../../support/mysql-server.ts";
import { postgresUrl } from "../../support/postgres-server.ts";

const root = join(import.meta.dirname, "../../..");
const examples = join(root, "examples/orm");
const servers = { postgres: await postgresUrl(), mysql: await mysqlUrl() };
const SECRET = "a secret of many letters";
/** The database refuses a stay that begins on this day. */
const REFUSED = "2030-01-01";
const TABLE = `CREATE TABLE stays (code varchar(40) PRIMARY KEY, listing integer NOT NULL,
  check_in varchar(10) NOT NULL CHECK (check_in <> '${REFUSED}'), check_out varchar(10) NOT NULL)`;

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** A database of one test. */
interface Place {
  readonly url: string;
  rows(text: string): Promise<unknown[]>;
}

async function onPostgres(server: string): Promise<Place> {
  const name = `stayhook_orm_${randomBytes(6).toString("hex")}`;
  const admin = new pg.Client({ connectionString: server });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  const url = Object.assign(new URL(server), { pathname: `/${name}` }).href;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
  });
  return { url, rows: async (text) => (await client.query(text)).rows };
}

/** Makes a pool of the test itself. */
function poolOf(place: Place): pg.Pool {
  const pool = new pg.Pool({ connectionString: place.url });
  // `pool.end` does not wait until the server has closed the connections, so the end of the database may still cut them.
  return pool.on("error", () => {});
}

async function onMysql(server: string): Promise<Place> {
  const name = `stayhook_orm_${randomBytes(6).toString("hex")}`;
  const connection = await mysql.createConnection({ uri: server });
  await connection.query(`CREATE DATABASE ${name}`);
  await connection.query(`USE ${name}`);
  onTestFinished(async () => {
    await connection.query(`DROP DATABASE ${name}`);
    await connection.end();
  });
  const rows = async (text: string) => [(await connection.query(text))[0]].flat();
  return { url: Object.assign(new URL(server), { pathname: `/${name}` }).href, rows };
}

async function onSqlite(): Promise<Place> {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-orm-"));
  const url = join(directory, "events.db");
  const db = new DatabaseSync(url, { timeout: 20_000 });
  onTestFinished(() => {
    db.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    url,
    rows: async (text) =>
      db
        .prepare(text)
        .all()
        .map((row) => ({ ...row })),
  };
}

/** Starts a sandbox with a confirmed booking. */
async function platform() {
  const sandbox = createSandbox({ seed: 7 });
  const { url } = await sandbox.listen();
  onTestFinished(() => sandbox.close());
  const { bookingCode } = await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed" });
  vi.stubEnv("STAYHOOK_BASE_URL", url);
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", sandbox.accessToken);
  vi.stubEnv("WEBHOOK_SECRET", SECRET);
  return {
    sandbox,
    bookingCode,
    client: new StayhookClient({ baseUrl: url, accessToken: sandbox.accessToken }),
  };
}

async function deliver(webhooks: Pick<WebhookHandler, "receive">, bookingCode: string) {
  const body = JSON.stringify({ eventId: randomUUID(), timestamp: new Date().toISOString(), bookingCode });
  const request = { method: "POST", url: `/?key=${SECRET}`, headers: {}, body };
  expect(await webhooks.receive(request)).toMatchObject({ status: 200 });
}

test.each([
  ["drizzle-postgres", "postgres"],
  ["drizzle-mysql", "mysql"],
  ["drizzle-sqlite", "sqlite"],
  ["kysely-postgres", "postgres"],
  ["kysely-mysql", "mysql"],
  ["kysely-sqlite", "sqlite"],
  ["knex-postgres", "postgres"],
  ["knex-mysql", "mysql"],
  ["prisma-postgres", "postgres"],
] as const)(
  "examples/orm/%s.ts keeps a table right, and a failed write undoes the others",
  async (name, kind) => {
    const server = kind === "sqlite" ? "" : servers[kind];
    if (server === undefined) return;
    vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const place = await { postgres: onPostgres, mysql: onMysql, sqlite: onSqlite }[kind](server);
    await place.rows(TABLE);
    if (name.startsWith("prisma")) generatePrisma();
    const { sandbox, bookingCode } = await platform();
    vi.stubEnv("DATABASE_URL", place.url);
    vi.stubEnv("EVENTS_DB", place.url);
    const file = join(examples, `${name}.ts`);
    const { webhooks }: { webhooks: WebhookHandler } = await import(/* @vite-ignore */ file);
    onTestFinished(() => webhooks.close({ timeout: 0 }));
    const stays = () => place.rows("SELECT code, listing, check_in, check_out FROM stays");
    const counts = async () => (await webhooks.health()).counts;
    const confirmed = sandbox.bookings.get(bookingCode)!;
    const row = {
      ...{ code: bookingCode, listing: confirmed.listingId },
      ...{ check_in: confirmed.checkIn, check_out: confirmed.checkOut },
    };

    await deliver(webhooks, bookingCode);
    await eventually(async () => expect(await stays()).toEqual([row]));

    await sandbox.bookings.alter(bookingCode, { checkIn: REFUSED, checkOut: "2030-01-03" });
    await deliver(webhooks, bookingCode);
    await eventually(async () => expect(await counts()).toMatchObject({ retrying: 1 }));
    // The function had deleted the row before the database refused the new one.
    expect(await stays()).toEqual([row]);

    await sandbox.bookings.alter(bookingCode, { checkIn: "2030-02-01", checkOut: "2030-02-03" });
    await deliver(webhooks, bookingCode);
    const moved = { ...row, check_in: "2030-02-01", check_out: "2030-02-03" };
    await eventually(async () => expect(await stays()).toEqual([moved]));

    await sandbox.bookings.cancel(bookingCode);
    await deliver(webhooks, bookingCode);
    await eventually(async () => expect(await stays()).toEqual([]));
  },
);

/** Generates the client of examples/orm. The schema engine is a download that only migrations need. */
function generatePrisma() {
  const prisma = join(import.meta.dirname, "../node_modules/prisma/build/index.js");
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: "1" };
  execFileSync(process.execPath, [prisma, "generate"], { cwd: examples, env, stdio: "pipe" });
}

test("examples/orm/prisma-postgres.ts compiles with the generated client", () => {
  generatePrisma();
  const compile = () =>
    execFileSync(
      process.execPath,
      ["node_modules/typescript-newest/bin/tsc", "--noEmit", "-p", "test/heavy/orm"],
      { cwd: root, encoding: "utf8" },
    );
  expect(compile).not.toThrow();
});

test.skipIf(servers.postgres === undefined)(
  "a $transaction of Prisma is refused, and begins nothing",
  async () => {
    generatePrisma();
    const place = await onPostgres(servers.postgres!);
    const pool = poolOf(place);
    const tx = await pool.connect();
    onTestFinished(async () => {
      tx.release();
      await pool.end();
    });
    vi.stubEnv("DATABASE_URL", place.url);
    await platform();
    const { prismaOn, webhooks } = await import(/* @vite-ignore */ join(examples, "prisma-postgres.ts"));
    onTestFinished(() => webhooks.close({ timeout: 0 }));
    const query = vi.spyOn(tx, "query");
    await expect(prismaOn(tx).$transaction(async () => {})).rejects.toThrow("Use no $transaction");
    expect(query).not.toHaveBeenCalled();
  },
);

test.skipIf(servers.postgres === undefined)(
  "a transaction of the ORM inside the function fails the attempt, and says why",
  async () => {
    const place = await onPostgres(servers.postgres!);
    await place.rows(TABLE);
    const { client, bookingCode } = await platform();
    const store = postgresStore({ connectionString: place.url });
    const webhooks = createWebhookHandler({
      ...{ client, store, verify: false, logger: () => {} },
      on: {
        booking: ({ atomically }) =>
          atomically((tx) => drizzle(tx).transaction((inner) => inner.execute(sql`SELECT 1`))),
      },
    });
    onTestFinished(() => webhooks.close({ timeout: 0 }));
    await deliver(webhooks, bookingCode);
    await eventually(async () => {
      const [event] = await store.list({ state: "retrying", limit: 1 });
      expect(event?.history.at(-1)?.error).toContain("ended the store's transaction");
    });
  },
);

test.skipIf(servers.postgres === undefined)(
  "memoryStore runs the functions in the transaction of drizzle, kysely and knex, and infers its type",
  async () => {
    const place = await onPostgres(servers.postgres!);
    await place.rows(TABLE);
    const { client, bookingCode } = await platform();
    const pool = poolOf(place);
    const drizzled = drizzle(pool);
    const kysely = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) });
    const knexed = knex({ client: "pg", connection: place.url });
    onTestFinished(async () => {
      await Promise.all([pool.end(), knexed.destroy()]);
    });
    const stores = {
      drizzle: memoryStore({ transaction: (run) => drizzled.transaction(run) }),
      kysely: memoryStore({ transaction: (run) => kysely.transaction().execute(run) }),
      knex: memoryStore({ transaction: (run) => knexed.transaction(async (trx) => run(trx)) }),
    };
    const insert = "INSERT INTO stays VALUES ('lazy', 1, 'a', 'b')";
    const settings = { client, verify: false } as const;
    // Each function returns a query that runs when it is awaited, and none is a promise.
    const handlers = [
      createWebhookHandler({
        ...{ ...settings, store: stores.drizzle },
        on: { booking: ({ atomically }) => atomically((tx) => tx.execute(sql.raw(insert))) },
      }),
      createWebhookHandler({
        ...{ ...settings, store: stores.kysely },
        on: { booking: ({ atomically }) => atomically((tx) => raw.raw(insert).execute(tx)) },
      }),
      createWebhookHandler({
        ...{ ...settings, store: stores.knex },
        on: { booking: ({ atomically }) => atomically((tx) => tx.raw(insert)) },
      }),
    ];
    expectTypeOf(stores.drizzle).not.toEqualTypeOf<EventStore>();
    for (const webhooks of handlers) {
      onTestFinished(() => webhooks.close({ timeout: 0 }));
      await deliver(webhooks, bookingCode);
      await eventually(async () => expect((await webhooks.health()).counts).toMatchObject({ done: 1 }));
      expect(await place.rows("DELETE FROM stays RETURNING code")).toEqual([{ code: "lazy" }]);
    }
  },
);
