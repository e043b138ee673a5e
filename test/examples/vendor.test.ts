import { randomBytes } from "node:crypto";
import { join as pathOf } from "node:path";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { decrypt, encrypt } from "../../examples/vendor/encryption.ts";
import { createSandbox, type SandboxAccount } from "../../src/testing/index.ts";
import { installed } from "../package/support/consumer.ts";
import { eventually } from "../support/eventually.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { later } from "./support/between.ts";
import { notificationOf, post } from "./support/drive.ts";
import { type Example, startExample } from "./support/example.ts";

const project = await installed(["ky", "uuid", "zod", "express", "pg"]);
const ADMIN_SECRET = "s3cret-of-the-admin";
const env = { ADMIN_SECRET, ACCOUNTS_KEY: randomBytes(32).toString("hex"), DATABASE_URL: "" };
const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
  startExample({ project, from: "vendor", command: [process.execPath, "main.ts"], env, ...options });

const ask = ({ url }: Example, method: string, path: string, body?: object) =>
  fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_SECRET}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });

/**
 * Waits until the calendar of an account has these stays, each as `<booking> <first night>`. It may also have HANGS, whose read
 * is repeated after 10 s.
 */
const expectCalendar = (example: Example, account: string, stays: readonly string[]) =>
  eventually(async () => {
    const answer = await ask(example, "GET", `/accounts/${account}/calendar`);
    const rows = (await answer.json()) as { booking: string; check_in: string }[];
    const others = rows.filter(({ booking }) => booking !== "HANGS");
    expect(others.map(({ booking, check_in }) => `${booking} ${check_in}`).sort()).toEqual([...stays].sort());
  });

const expectMetric = (example: Example, line: string) =>
  eventually(async () =>
    expect((await (await ask(example, "GET", "/metrics")).text()).split("\n")).toContain(line),
  );

/** The values of all tables of the example. */
function valuesIn(directory: string): string[] {
  const db = new DatabaseSync(pathOf(directory, "events.db"), { readOnly: true });
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const rows = tables.flatMap(({ name }) => db.prepare(`SELECT * FROM "${name}"`).all());
  db.close();
  return rows.flatMap((row) => Object.values(row).map(String));
}

const isOf = (account: string) => (value: string) => value === account || value.includes(`${account}/`);

/** Joins with the account's token, or with another one. */
async function join(
  example: Example,
  { accountId, accessToken }: SandboxAccount,
  { token = accessToken, bookings }: { token?: string; bookings?: unknown } = {},
): Promise<number> {
  return (await ask(example, "POST", "/accounts", { account: accountId, token, bookings })).status;
}

const hooksOf = ({ webhookConfig }: SandboxAccount): string => webhookConfig?.endpoints.bookings ?? "";

test("a token can be decrypted with its key and for its account only", () => {
  const [key, other] = [randomBytes(32), randomBytes(32)];
  const encrypted = encrypt(key, "a17", "a token");
  expect(encrypted).not.toBe(encrypt(key, "a17", "a token"));
  expect(decrypt(key, "a17", encrypted)).toBe("a token");
  expect(() => decrypt(other, "a17", encrypted)).toThrow();
  expect(() => decrypt(key, "b2", encrypted)).toThrow();
});

test("keeps three accounts apart by a refused token, a kill -9, and one that leaves", async () => {
  const sandbox = createSandbox({ accounts: ["a17", "b2", "c3"], delivery: { duplicates: 1 } });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  const [a17, b2, c3] = [sandbox.account("a17"), sandbox.account("b2"), sandbox.account("c3")];
  const year = new Date().getUTCFullYear() + 1;
  const book = (account: SandboxAccount, bookingCode: string, month: number) => {
    const days = { checkIn: `${year}-0${month}-01`, checkOut: `${year}-0${month}-04` };
    return account.bookings.instantBook({ listingId: 7, bookingCode, ...days });
  };

  // Only the admin gets in. A refused token is told at once.
  const first = await start({ sandbox });
  for (const path of ["/accounts", "/accounts/a17/calendar", "/console"])
    expect((await fetch(first.url + path)).status, path).toBe(401);
  const login = { authorization: `Basic ${btoa(`someone:${ADMIN_SECRET}`)}` };
  expect((await fetch(`${first.url}/console`, { headers: login })).status).toBe(200);
  expect((await ask(first, "POST", "/accounts", { account: "a/17", token: "a" })).status).toBe(400);
  expect((await ask(first, "POST", "/accounts", { account: "a17" })).status).toBe(400);
  expect(await join(first, b2, { token: "an-old-token" })).toBe(422);
  for (const account of [a17, b2, c3]) expect(await join(first, account)).toBe(201);
  expect(valuesIn(first.directory).filter((value) => value.includes("sandbox-token"))).toEqual([]);

  // One booking code in three accounts.
  for (const [index, account] of [a17, b2, c3].entries()) await book(account, "SAME", index + 1);
  for (const [index, account] of ["a17", "b2", "c3"].entries())
    await expectCalendar(first, account, [`SAME ${year}-0${index + 1}-01`]);

  // The key of an account opens its own URL only.
  const notification = JSON.stringify(notificationOf({ bookingCode: "SAME" }));
  const guessed = hooksOf(a17).replace("account=a17", "account=b2");
  expect((await post(guessed, notification)).status).toBe(401);
  const unknown = hooksOf(a17).replace("account=a17", "account=z9");
  expect((await post(unknown, notification)).status).toBe(404);

  // The others go on while the platform refuses the token of b2.
  b2.faults.set([{ status: 401 }]);
  for (const account of [b2, a17, c3]) await book(account, "LATER", 4);
  await expectCalendar(first, "a17", [`SAME ${year}-01-01`, `LATER ${year}-04-01`]);
  await expectCalendar(first, "c3", [`SAME ${year}-03-01`, `LATER ${year}-04-01`]);
  await expectCalendar(first, "b2", [`SAME ${year}-02-01`]);
  expect(await (await ask(first, "GET", "/accounts")).json()).toMatchObject({
    accounts: ["a17", "b2", "c3"],
    paused: { count: 1, first: [{ account: "b2", scope: "account" }] },
  });

  // The process dies while it reads the records of a17.
  a17.faults.set([{ route: "GET /v2/bookings/{bookingCode}", delay: "60s" }]);
  for (const bookingCode of ["ONE", "TWO", "THREE"]) await book(a17, bookingCode, 5);
  await sandbox.settled();
  await first.kill();
  expect(sandbox.deliveries.filter(({ status }) => status !== 200)).toEqual([]);
  a17.faults.clear();
  b2.faults.clear();
  // Start after the leases of the dead process have expired.
  const second = await start({ sandbox, directory: first.directory, command: [...later(31_000)] });
  const nights = ["ONE", "TWO", "THREE"].map((bookingCode) => `${bookingCode} ${year}-05-01`);
  await expectCalendar(second, "a17", [`SAME ${year}-01-01`, `LATER ${year}-04-01`, ...nights]);
  // The second process listens on another port, so the platform needs its URLs.
  for (const account of [a17, b2, c3]) expect(await join(second, account)).toBe(201);
  await expectCalendar(second, "b2", [`SAME ${year}-02-01`, `LATER ${year}-04-01`]);

  // An account that leaves takes everything with it, and no one else.
  const old = hooksOf(b2);
  expect(valuesIn(second.directory).some(isOf("b2"))).toBe(true);
  expect((await ask(second, "DELETE", "/accounts/b2")).status).toBe(204);
  expect((await ask(second, "DELETE", "/accounts/b2")).status).toBe(404);
  expect(b2.webhookConfig).toBeUndefined();
  expect((await post(old, notification)).status).toBe(404);
  expect(valuesIn(second.directory).filter(isOf("b2"))).toEqual([]);
  await book(c3, "LAST", 6);
  await expectCalendar(second, "c3", [`SAME ${year}-03-01`, `LATER ${year}-04-01`, `LAST ${year}-06-01`]);
  // A revoked token keeps no account.
  c3.faults.set([{ status: 401 }]);
  expect((await ask(second, "DELETE", "/accounts/c3")).status).toBe(204);
  expect(valuesIn(second.directory).filter(isOf("c3"))).toEqual([]);
  expect(await (await ask(second, "GET", "/accounts")).json()).toMatchObject({ accounts: ["a17"] });
  expect(await second.stop()).toEqual([0, null]);
});

const hangingReads = [{ route: "GET /v2/bookings/HANGS", delay: "60s" }];

/** Makes an empty database, and deletes it after the test. */
async function emptyDatabase(): Promise<string> {
  const url = new URL((await postgresUrl())!);
  const server = new pg.Client({ connectionString: url.href });
  await server.connect();
  const name = `stayhook_vendor_${randomBytes(6).toString("hex")}`;
  await server.query(`CREATE DATABASE ${name}`);
  onTestFinished(async () => {
    await server.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await server.end();
  });
  url.pathname = `/${name}`;
  return url.href;
}

test("two processes start on an empty database, and an account leaves one and joins the other", async () => {
  const sandbox = createSandbox({ accounts: ["a17"] });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  const a17 = sandbox.account("a17");
  const DATABASE_URL = await emptyDatabase();
  const database = new pg.Client({ connectionString: DATABASE_URL });
  database.on("error", () => {}); // the end of the test drops the database
  await database.connect();
  onTestFinished(() => database.end());
  const options = { sandbox, env: { ...env, DATABASE_URL } };
  // Both find no table of accounts, and then wait for this transaction.
  await database.query("BEGIN; CREATE TABLE accounts (account text PRIMARY KEY)");
  const both = Promise.all([start(options), start(options)]);
  await eventually(async () => {
    // Unlike pg_stat_activity, pg_locks is read anew in each statement of a transaction.
    const waiting = `SELECT FROM pg_locks AS lock WHERE NOT granted AND EXISTS (SELECT FROM pg_locks AS own
        WHERE own.pid = lock.pid AND own.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`;
    expect((await database.query(waiting)).rowCount).toBe(2);
  });
  await database.query("ROLLBACK");
  const [first, second] = await both;

  expect(await join(first, a17)).toBe(201);
  a17.faults.set(hangingReads);
  await a17.bookings.instantBook({ listingId: 7, bookingCode: "HANGS" });
  await expectMetric(first, 'stayhook_events{state="processing"} 1');
  const leaving = ask(first, "DELETE", "/accounts/a17");
  await eventually(async () =>
    expect(await (await ask(first, "GET", "/accounts")).json()).toMatchObject({ accounts: [] }),
  );
  a17.faults.clear();
  expect(await join(second, a17)).toBe(201);
  const { checkIn } = await a17.bookings.instantBook({ listingId: 7, bookingCode: "NEW" });
  expect((await leaving).status).toBe(409);
  await expectCalendar(second, "a17", [`NEW ${String(checkIn).slice(0, 10)}`]);
});

test("an account that joins again while its DELETE waits keeps everything", async () => {
  const sandbox = createSandbox({ accounts: ["a17"] });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  const a17 = sandbox.account("a17");
  const days = { listingId: 7, checkIn: `${new Date().getUTCFullYear() + 1}-05-01` };
  const book = (bookingCode: string) => a17.bookings.instantBook({ ...days, bookingCode });
  const stays = (...codes: string[]) => codes.map((code) => `${code} ${days.checkIn}`);
  const example = await start({ sandbox });
  expect(await join(example, a17)).toBe(201);
  await book("OLD");
  await expectCalendar(example, "a17", stays("OLD"));

  a17.faults.set(hangingReads);
  await book("HANGS");
  await sandbox.settled();
  await expectMetric(example, 'stayhook_events{state="processing"} 1');
  const leaving = ask(example, "DELETE", "/accounts/a17");
  await eventually(() => expect(valuesIn(example.directory).filter(isOf("a17/booking:OLD"))).toEqual([]));
  a17.faults.clear();
  expect(await join(example, a17)).toBe(201);
  await book("NEW");
  expect((await leaving).status).toBe(409);
  await expectCalendar(example, "a17", stays("OLD", "NEW"));
  // stayhook knows both again, so that the reconciler reads them.
  const known = () => new DatabaseSync(pathOf(example.directory, "events.db"), { readOnly: true });
  await eventually(() => {
    const db = known();
    const refs = db.prepare("SELECT ref FROM stayhook_records WHERE snapshot IS NOT NULL").all();
    db.close();
    expect(refs.map(({ ref }) => ref)).toEqual(
      expect.arrayContaining(["a17/booking:OLD", "a17/booking:NEW"]),
    );
  });
  expect(hooksOf(a17)).toContain("account=a17");
});

test("a host that joins brings bookings, and the service tells its health", async () => {
  const sandbox = createSandbox({ accounts: ["a17"] });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  const a17 = sandbox.account("a17");
  const { bookingCode, checkIn } = await a17.bookings.instantBook({ listingId: 7 });
  const example = await start({ sandbox });
  const stay = [`${bookingCode} ${String(checkIn).slice(0, 10)}`];
  expect(await join(example, a17, { bookings: bookingCode })).toBe(400);
  expect(await join(example, a17, { bookings: [bookingCode, "NONE"] })).toBe(422);
  await expectCalendar(example, "a17", stay);

  const health = await fetch(`${example.url}/healthz`);
  expect([health.status, await health.json()]).toEqual([200, { state: "running" }]);
  expect(health.headers.get("keep-alive")).toBe("timeout=75");
  expect((await fetch(`${example.url}/metrics`)).status).toBe(401);
  a17.faults.set([{ status: 401 }]);
  await a17.bookings.instantBook({ listingId: 7 });
  await expectMetric(example, "stayhook_paused_accounts 1");
  await expectMetric(example, 'stayhook_events{state="parked"} 0');
  expect(await example.stop()).toEqual([0, null]);
});
