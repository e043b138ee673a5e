import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import type { SqlMigration } from "../../src/stores/sql/driver.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { sqliteDialect } from "../../src/stores/sqlite/sqlite-dialect.ts";
import { cli, closed, directory, platform, receiver, serve, servedAppOf } from "./support.ts";

interface Report {
  readonly ok: boolean;
  readonly wouldRecord?: object;
  readonly recorded?: { readonly eventId: string };
  readonly checks: readonly { readonly check: string; readonly state: string; readonly detail: string }[];
}

async function doctor(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout } = await cli(["doctor", "--json", ...args], { env });
  const report: Report = JSON.parse(stdout);
  const states = Object.fromEntries(report.checks.map(({ check, state }) => [check, state]));
  const detail = (name: string) => report.checks.find(({ check }) => check === name)?.detail;
  return { code, report, states, detail };
}

/** Starts a platform, and an app with or without a secret. */
async function setUp(secret?: string) {
  const { sandbox, env } = await platform();
  const configure = (...args: string[]) => cli(["config", "set", ...args], { env });
  return { ...(await servedAppOf(env, secret)), sandbox, env, configure };
}

const both = "bookings, listings";

test("passes a correct setup, and the endpoint records nothing", async () => {
  const { env, store, url, configure } = await setUp("s3cret");
  await configure("--bookings", url, "--listings", url);
  const { code, states, report } = await doctor(env);
  expect(states).toEqual({
    "access token": "passed",
    clock: "passed",
    configuration: "passed",
    [`${both}: https`]: "warned",
    [`${both}: answers`]: "passed",
    [`${both}: refuses a wrong secret`]: "passed",
    [`${both}: refuses a malformed body`]: "passed",
    [`${both}: delivery`]: "skipped",
  });
  expect({ code, ok: report.ok }).toEqual({ code: 0, ok: true });
  expect(report.wouldRecord).toMatchObject({ bookingCode: null, listingId: null });
  expect(await store.list({ limit: 10 })).toEqual([]);
  expect(JSON.stringify(report)).not.toContain("s3cret");
});

test("with --deliver prints a notification and sends it twice", async () => {
  const { env, store, url } = await setUp("s3cret");
  const { code, report } = await doctor(env, "--deliver", "--to", url);
  expect(code).toBe(1); // the account has no configuration
  const deliveries = report.checks.filter(({ check }) => check.endsWith(": delivery"));
  expect(deliveries.map(({ state }) => state)).toEqual(["passed", "passed"]);
  expect(await store.list({ limit: 10 })).toMatchObject([{ eventId: report.recorded?.eventId, ref: null }]);
  const { stdout, stderr } = await cli(["doctor", "--deliver", "--to", url], { env });
  const [, eventId = ""] = /"eventId":"([^"]+)"/.exec(stderr) ?? [];
  expect(await store.get(eventId)).toBeDefined();
  expect(stdout).toMatch(/^✓ access token: /);
});

test("ends with the exit code that other commands have for the same cause", async () => {
  const { sandbox, env } = await platform();
  const missing = await serve((_request, response) => response.writeHead(404).end());
  const page = await serve((_request, response) => response.end("<html>"));
  for (const [more, status, code, check] of [
    [{ STAYHOOK_ACCESS_TOKEN: "wr0ng" }, undefined, 3, "access token"],
    [{}, 403, 3, "access token"],
    [{}, 429, 5, "platform"],
    [{}, 503, 5, "platform"],
    [{}, 418, 1, "platform"],
    [{ STAYHOOK_BASE_URL: await closed() }, undefined, 5, "platform"],
    [{ STAYHOOK_BASE_URL: missing }, undefined, 4, "base URL"],
    [{ STAYHOOK_BASE_URL: page }, undefined, 1, "base URL"],
    [{ STAYHOOK_ACCESS_TOKEN: "" }, undefined, 2, undefined],
  ] as const) {
    // The client does not retry, because it never waits as long as this retryAfter.
    sandbox.faults.set(status === undefined ? [] : [{ status, retryAfter: 3600 }]);
    const given = { env: { ...env, ...more } };
    const ended = await cli("doctor --json", given);
    // The platform's text ends with a period. Doctor must not add a period or a colon after it.
    expect(ended.stdout).not.toMatch(/\.[.:]/);
    const first = ended.stdout === "" ? undefined : JSON.parse(ended.stdout).checks[0].check;
    expect({ code: ended.code, first }).toEqual({ code, first: check });
    expect((await cli("listings", given)).code).toBe(code);
  }
  // The first failed check decides.
  const { code, report } = await doctor({ ...env, STAYHOOK_ACCESS_TOKEN: "wr0ng" }, "--to", await closed());
  expect(code).toBe(3);
  const failed = report.checks.filter(({ state }) => state === "failed");
  expect(failed.map(({ check }) => check)).toEqual(["access token", "endpoint: answers"]);
  expect(Object.keys(failed[0]!)).toEqual(["check", "state", "detail"]);
});

test("accepts the token of an account whose listings are invalid, with a warning", async () => {
  const proxy = await serve((request, response) => {
    response.setHeader("content-type", "application/json");
    return request.url === "/v2/listings"
      ? response.end('[{"listingId":"none"}]')
      : response.writeHead(404).end();
  });
  const { states } = await doctor({ STAYHOOK_BASE_URL: proxy, STAYHOOK_ACCESS_TOKEN: "t" });
  expect(states).toMatchObject({ "access token": "warned", configuration: "failed" });
});

test("warns of a status that no callback is named for", async () => {
  const { sandbox, env } = await platform();
  await sandbox.listings.create({ listingId: 7, status: "Hidden" });
  const one = await doctor(env);
  expect(one.states).not.toHaveProperty("statuses");
  expect(one.detail("access token")).toMatch(/ lists 1 listing\.$/);
  await sandbox.listings.create({ listingId: 9, status: "published" });
  expect((await doctor(env)).states).not.toHaveProperty("statuses");
  await sandbox.listings.create({ listingId: 8, status: "Paused" });
  const { states, detail } = await doctor(env);
  expect(states).toMatchObject({ statuses: "warned" });
  expect(detail("statuses")).toContain('the status "Paused" of listing 8. Only');
});

test("fails if the configuration is missing or off, and warns of a topic without a URL", async () => {
  const { env, url, configure } = await setUp("s3cret");
  expect(await doctor(env)).toMatchObject({ code: 1, states: { configuration: "failed" } });
  await configure("--bookings", url, "--inactive");
  const states = { configuration: "failed", endpoints: "warned" };
  expect(await doctor(env)).toMatchObject({ code: 1, states });
});

test("checks the configured endpoint, not an exported one: a dead endpoint fails", async () => {
  const { env, url, configure } = await setUp("s3cret");
  const dead = `${await closed()}/hooks?key=s3cret`;
  await configure("--bookings", dead, "--listings", dead);
  for (const name of ["STAYHOOK_TARGET", "STAYHOOK_ENDPOINT", "STAYHOOK_TO"])
    expect(await doctor({ ...env, [name]: url }), name).toMatchObject({
      code: 1,
      states: { [`${both}: answers`]: "failed" },
    });
  const states = { "endpoint: answers": "passed" };
  expect(await doctor(env, "--to", url)).toMatchObject({ code: 0, states });
});

test("compares the schema version of a store that is given, and changes nothing in it", async () => {
  const { env } = await platform();
  const path = join(directory(), "events.db");
  const STAYHOOK_STORE = path;
  expect((await doctor(env)).states).not.toHaveProperty("store");
  const missing = await doctor(env, "--store", path);
  expect(missing.detail("store")).toContain(`There is no file ${path}`);
  expect(missing.states).toMatchObject({ store: "failed" });
  await sqliteStore(path).close();
  const same = await doctor({ ...env, STAYHOOK_STORE });
  expect(same.detail("store")).toBe("The store has schema version 3, which this version of stayhook makes.");
  expect(same.states).toMatchObject({ store: "passed", "store's server": "passed" });
  const db = new DatabaseSync(path);
  db.exec("UPDATE stayhook_meta SET value = '4' WHERE name = 'schema'");
  const newer = await doctor({ ...env, STAYHOOK_STORE });
  expect(newer.states).toMatchObject({ store: "warned" });
  expect(newer.detail("store")).toContain(
    "schema version 4, and this version of stayhook makes version 3. A newer",
  );
  (sqliteDialect.migrations as SqlMigration[]).push(
    { statements: ["CREATE TABLE four (a)"] },
    { statements: ["CREATE TABLE five (a)"] },
  );
  onTestFinished(() => void (sqliteDialect.migrations as SqlMigration[]).splice(-2));
  const older = await doctor({ ...env, STAYHOOK_STORE });
  expect(older.states).toMatchObject({ store: "warned" });
  expect(older.detail("store")).toContain("run the SQL of migrationSql({ from: 4 }) before");
  expect(db.prepare("SELECT value FROM stayhook_meta WHERE name = 'schema'").get()).toEqual({ value: "4" });
  db.close();
});

test("warns if the configured URL is not the URL in STAYHOOK_ENDPOINT", async () => {
  const { env, url, configure } = await setUp("s3cret");
  await cli(["config", "ensure", "--to", url], { env });
  expect((await doctor({ ...env, STAYHOOK_ENDPOINT: url })).states).not.toHaveProperty("endpoints");
  await configure("--bookings", url, "--listings", `${url}x`);
  for (const [expected, topics] of [
    [url, "listings"],
    ["nonsense", "bookings and listings"],
  ] as const) {
    const { report, states, detail } = await doctor({ ...env, STAYHOOK_ENDPOINT: expected });
    expect(states.endpoints).toBe("warned");
    expect(detail("endpoints")).toContain(`for ${topics} is not`);
    expect(JSON.stringify(report)).not.toContain("s3cret");
  }
});

test.each([
  ["accepts any secret", undefined, "", { "refuses a wrong secret": "failed" }],
  ["checks its secret", "s3cret", "topic=bookings&", { "refuses a wrong secret": "passed" }],
  [
    "has another secret",
    "another",
    "",
    { "refuses a wrong secret": "passed", "refuses a malformed body": "failed" },
  ],
])("a handler that %s", async (_, secret, query, expected) => {
  const { env, url, store } = await setUp(secret);
  const { states } = await doctor(env, "--to", url.replace("?", `?${query}`));
  for (const [check, state] of Object.entries(expected)) expect(states[`endpoint: ${check}`]).toBe(state);
  expect(await store.list({ limit: 10 })).toEqual([]);
});

const answering = (statusOf: (url: string | undefined) => number) => () =>
  serve(({ url }, response) => response.writeHead(statusOf(url)).end());
test.each<[string, () => Promise<string>, Record<string, string>]>([
  [
    "has its secret in the path",
    answering((url) => (url === "/hooks/s3cret" ? 400 : 401)),
    { "refuses a wrong secret": "passed", "refuses a malformed body": "passed" },
  ],
  [
    "is not found with another path",
    answering((url) => (url === "/hooks/s3cret" ? 400 : 404)),
    { "refuses a wrong secret": "warned", "refuses a malformed body": "passed" },
  ],
  [
    "has a guard in front that forbids another path",
    answering((url) => (url === "/hooks/s3cret" ? 400 : 403)),
    { "refuses a wrong secret": "warned", "refuses a malformed body": "passed" },
  ],
  [
    "accepts a malformed body",
    answering(() => 200),
    { "refuses a wrong secret": "failed", "refuses a malformed body": "failed" },
  ],
  ["serves nothing", answering(() => 404), { "refuses a malformed body": "failed" }],
  ["is broken", answering(() => 500), { answers: "failed" }],
  ["hangs up", () => serve((request) => void request.socket.destroy()), { answers: "failed" }],
  ["is not https", async () => "http://stayhook.invalid", { https: "failed", answers: "failed" }],
])("an endpoint that %s", async (_, start, expected) => {
  const { env } = await platform();
  const { states } = await doctor(env, "--to", `${await start()}/hooks/s3cret`);
  for (const [check, state] of Object.entries(expected)) expect(states[`endpoint: ${check}`]).toBe(state);
});

test.each([
  [401, "Is the secret in the URL right?"],
  [403, "Is the secret in the URL right?"],
  [404, "Is the path of its URL right?"],
  [429, "but 400 was expected"],
])("an endpoint that answers %i to a malformed body is told what may be wrong", async (status, told) => {
  const { env } = await platform();
  const { detail } = await doctor(env, "--to", `${await answering(() => status)()}/hooks/s3cret`);
  expect(detail("endpoint: refuses a malformed body")).toContain(told);
});

test.each([
  ["?account=a17&key=s3cret&topic=bookings", "?account=a17&key=*&topic=bookings"],
  ["?account=a17&secret=s3cret", "?account=a17&secret=*"],
  ["?for=a17&key=s3cret", "?for=a17&key=*"],
  ["?account=a17", "?account=a17"],
])("changes only the key of %s", async (query, expected) => {
  const { env } = await platform();
  const urls: string[] = [];
  const base = await serve(({ url = "" }, response) => {
    urls.push(url);
    response.writeHead(401).end();
  });
  const { states } = await doctor(env, "--to", `${base}/hooks${query}`);
  const wrong = urls.map((url) => url.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "*"))[1];
  expect(wrong).toBe(query === "?account=a17" ? `/*${expected}` : `/hooks${expected}`);
  expect(states["endpoint: refuses a wrong secret"]).toBe("passed");
});

test("verify: false is found behind a route that knows its accounts", async () => {
  const { env } = await platform();
  const guarded = await serve(({ url = "" }, response) => {
    const { searchParams } = new URL(url, "http://localhost");
    response.writeHead(searchParams.get("account") === "a17" ? 400 : 404).end();
  });
  const { states } = await doctor(env, "--to", `${guarded}/hooks?account=a17&key=s3cret`);
  expect(states["endpoint: refuses a wrong secret"]).toBe("failed");
});

test("fails if no answer comes within 30 s, and warns of a slow answer", async () => {
  const { env, url, configure } = await setUp("s3cret");
  await configure("--bookings", url, "--listings", url);
  // Each answer seems to take 11 s. A clock that moved at each reading would make the loops of other files run for ever.
  let passed = 0;
  const { now } = performance;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + passed);
  const { fetch } = globalThis;
  const requests = vi.spyOn(globalThis, "fetch").mockImplementation(async (...request) => {
    const response = await fetch(...request);
    passed += 11_000;
    return response;
  });
  onTestFinished(() => clock.mockRestore());
  onTestFinished(() => requests.mockRestore());
  const late = await doctor(env, "--deliver");
  clock.mockRestore();
  requests.mockRestore();
  expect(late).toMatchObject({ code: 0, states: { [`${both}: answers`]: "warned" } });
  const deliveries = late.report.checks.filter(({ check }) => check.endsWith(": delivery"));
  expect(deliveries.map(({ state }) => state)).toEqual(["warned", "warned"]);

  const never = await serve(() => {});
  const timeout = AbortSignal.timeout;
  const timeouts = vi
    .spyOn(AbortSignal, "timeout")
    .mockImplementation((ms) => timeout.call(AbortSignal, ms === 30_000 ? 50 : ms));
  onTestFinished(() => timeouts.mockRestore());
  const { report, states, detail } = await doctor(env, "--to", `${never}/?key=s3cret`);
  expect(states["endpoint: answers"]).toBe("failed");
  expect(detail("endpoint: answers")).toContain("no answer within 30 s");
  expect(JSON.stringify(report)).not.toContain("s3cret");
});

test("sends only bodies that no endpoint can record", async () => {
  const { env } = await platform();
  const { url, received } = await receiver();
  for (const to of [url, `${url}?key=s3cret`]) await cli(["doctor", "--to", to], { env });
  for (const body of received()) expect(["", "{}", '{"eventId":']).toContain(body);
  expect(received()).toHaveLength(6);
});

test.each([
  [-40, "passed", "agree."],
  [-3600, "failed", "3600 s ahead of"],
  [+3600, "failed", "3600 s behind"],
  [-40, "passed", "agree.", /^(...), (..) (...) (\d+) (.*) GMT$/],
])("compares the clocks: the platform's is %i s off", async (seconds, state, text, withoutZone?: RegExp) => {
  const utc = new Date(Date.now() + seconds * 1000).toUTCString();
  const date = withoutZone ? utc.replace(withoutZone, "$1 $3 $2 $5 $4") : utc;
  const baseUrl = await serve((_request, response) => response.writeHead(404, { date }).end());
  const { states, detail } = await doctor({ STAYHOOK_BASE_URL: baseUrl, STAYHOOK_ACCESS_TOKEN: "t" });
  expect(states.clock).toBe(state);
  // The answer takes time, so the difference may be a few seconds off.
  expect(detail("clock")?.replace(/360\d|3599/, "3600")).toContain(text);
});

test("names a redirect of notifications, without the secret in its URL", async () => {
  const { env } = await platform();
  const targets: Record<string, readonly [location: string, said: string]> = {
    "/slash?key=s3cret": ["/slash/?key=s3cret", "308, a redirect that adds a slash to the end of the path"],
    "/host?key=s3cret": [
      "https://www.example.com/host?key=s3cret",
      "308, a redirect to https://www.example.com",
    ],
    "/gone/?key=s3cret": [
      "/gone?key=s3cret",
      "308, a redirect that removes the slash at the end of the path",
    ],
    "/other?key=s3cret": ["/login?key=s3cret", "308, a redirect to another path or query"],
  };
  const base = await serve((request, response) => {
    const { method, url = "" } = request;
    response
      .writeHead(method === "GET" ? 405 : 308, {
        location: targets[url.replace(/key=[^&]+/, "key=s3cret").replace(/[&?]topic=\w+/, "")]?.[0] ?? "",
      })
      .end();
  });
  for (const [path, [, said]] of Object.entries(targets)) {
    const { report, detail } = await doctor(env, "--deliver", "--to", new URL(path, base).href);
    const topic = report.checks.at(-1)?.check.split(":")[0];
    for (const check of ["refuses a wrong secret", "refuses a malformed body", "delivery"])
      expect(detail(`${topic}: ${check}`)).toContain(`The endpoint answered ${said}`);
    expect(JSON.stringify(report)).not.toContain("s3cret");
  }
});
