import { describe, expect, onTestFinished, test, vi } from "vitest";
import { commands } from "../../src/cli/commands.ts";
import { manifest } from "../package/support/pack.ts";
import { cli, closed, plain, platform, serve } from "./support.ts";

const paths: string[] = [];
for (const { name, load } of commands) {
  const { commands: below = [] } = await load();
  paths.push(name, ...below.map((command) => `${name} ${command.name}`));
}

describe("help", () => {
  test.each(["", "events replay ", "config ensure "])("of %j is no wider than the terminal", async (path) => {
    const { stdout } = await cli(`${path}--help`, { terminal: true, columns: 70 });
    for (const line of stdout.split("\n")) expect(line.length, line).toBeLessThanOrEqual(70);
  });

  test("lists the commands, the environment variables and the exit codes", async () => {
    expect(paths).toContain("events replay");
    const { code, stdout, stderr } = await cli("--help");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const { name } of commands) expect(stdout).toMatch(new RegExp(`^  ${name} +\\w`, "m"));
    for (const name of ["BASE_URL", "ACCESS_TOKEN", "STORE", "ENDPOINT_BOOKINGS", "ENDPOINT", "TARGET"])
      expect(stdout).toContain(`STAYHOOK_${name} `);
    for (const exit of [0, 1, 2, 3, 4, 5, 130]) expect(stdout).toMatch(new RegExp(`^  ${exit} +\\w`, "m"));
    expect(stdout.replace(/\s+/g, " ")).toContain(
      '130 interrupted by Ctrl-C; sandbox, console, listen and "events ls --follow" run until Ctrl-C, and then end with 0',
    );
    expect((await cli("help")).stdout).toBe(stdout);
    expect((await cli("-h")).stdout).toBe(stdout);
  });

  test.each(paths)("of %s has its usage and an example", async (path) => {
    const { code, stdout, stderr } = await cli(`${path} --help`);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`^Usage: stayhook ${path}`));
    expect(stdout).toMatch(new RegExp(`^Examples?:\n  stayhook ${path}`, "m"));
    expect((await cli(`help ${path}`)).stdout).toBe(stdout);
  });

  test("goes to stderr if the command is missing", async () => {
    expect(await cli([])).toMatchObject({ code: 2, stdout: "" });
    const group = await cli("config");
    expect(group).toMatchObject({ code: 2, stdout: "" });
    expect(group.stderr).toContain("Usage: stayhook config <command>");
  });
});

test("--version prints the package's version", async () => {
  expect(await cli("--version")).toMatchObject({ code: 0, stdout: `${manifest.version}\n` });
  expect(JSON.parse((await cli("version --json")).stdout)).toEqual({ version: manifest.version });
});

test.each([
  ["nonsense", "There is no command nonsense. See stayhook --help."],
  ["listing", 'There is no command listing. Did you mean "stayhook listings"?'],
  ["events lss", 'There is no command lss. Did you mean "stayhook events ls"?'],
  ["config hunter2", "There is no such command. See stayhook config --help."],
  ["--store x events", "The command must come before its options."],
  ["-V", "Did you mean -v or --version?"],
  ["list", 'Did you mean "stayhook listings"?'],
  ["ls", 'Did you mean "stayhook events ls"?'],
  ["events list", 'Did you mean "stayhook events ls"?'],
  ["config show", 'Did you mean "stayhook config get"?'],
  ["events counts --store events.db --schema other", "--schema works only with PostgreSQL."],
  ["events counts --store events.db --prefix other", "--prefix works only with Redis."],
  ["listings --nonsense", "There is no option --nonsense. See stayhook listings --help."],
  ["listings --statis x", "There is no option --statis. Did you mean --status?"],
  ["listings extra", "There are too many arguments."],
  ["booking", "<code> is missing"],
  ["listings --status", "--status requires a value."],
  ["config off -yx", "There is no option -x."],
  ["listings --json=yes", "--json takes no value"],
  ["listings", "STAYHOOK_BASE_URL"],
  ["events counts", "STAYHOOK_STORE"],
  ["events ls --limit 0 --store x", "--limit must be an integer"],
  ["events replay --store x", "Give ids of events, or a filter, or --all."],
  ["events replay --reason callback A --store x", "Give ids of events, or"],
  ["events replay --state pending --store x", "--state must be one of retrying, done, parked, scheduled."],
  ["events ls --follow --limit 3 --store x", "--follow cannot be combined with --limit."],
  [
    "events counts --store mongodb://x/y",
    "--store or STAYHOOK_STORE must be an SQLite file, or a postgres://",
  ],
  ["config off", "--yes"],
  ["config delete", "--yes"],
  ["config ensure", "at least one of --bookings"],
  ["config ensure --to https://x.example --bookings https://x.example", "but not both."],
  ["listen --store x", "--to or STAYHOOK_TARGET"],
  ["listen --to nowhere --store x", "--to or STAYHOOK_TARGET must be an http or https URL."],
  ["sandbox --retry 1s,soon", "--retry must be a list of times such as 1s,10s,1m."],
  ["sandbox --delay 1s-2s-3s", "--delay must be a time such as 2s, or a range"],
  ["sandbox --timeout=", "--timeout must be a time"],
  ["sandbox --port many", "--port must be an integer"],
  ["sandbox --port 0 --drop=", "drop"],
  ["sandbox --port 0 --seed 1.5", "--seed must be an integer"],
  ["sandbox --port 0 --timeout 0", "timeout"],
  ["sandbox --port 0 --duplicates -1", "--duplicates requires a value."],
  ["sandbox --port 0 --host 0.0.0.0", "STAYHOOK_ACCESS_TOKEN"],
  ["console --port 70000", "--port must be an integer from 0 to 65535."],
  ["trigger nonsense --to http://127.0.0.1:1", "The first argument must be"],
  ["trigger booking.Nonsense --to http://127.0.0.1:1", "The first argument must be"],
  ["trigger listing abc --to http://127.0.0.1:1", "an integer"],
  ["trigger booking A --to nowhere", "--to or STAYHOOK_TARGET must be"],
  ["trigger unknown A --to http://127.0.0.1:1", "An unknown event has no code or id."],
  ["trigger listing 7 --booking A --to http://127.0.0.1:1", "--booking works only with"],
  ["copy", "copy requires --from and --to."],
  ["copy --from a.db --to a.db", "the same store"],
  ["copy --from a.db --to b.db --schema x", "--schema works only with PostgreSQL."],
  ["copy --from a.db --to b.db --to-schema x", "--to-schema works only with PostgreSQL."],
  ["copy --from ftp://x --to b.db", "--from must be an SQLite file"],
  ["events counts --store sqlite:e.db", "--store or STAYHOOK_STORE must be an SQLite file"],
])("wrong usage: %s", async (line, message) => {
  const { code, stdout, stderr } = await cli(line);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain(message);
});

test.each(["events.db\r", "events.db ", "events.db\n", "postgres://localhost/app\r"])(
  "a store that ends in white space is refused: %j",
  async (store) => {
    const message = "ends in white space. If the value is from an env file, save that file with LF line ends";
    for (const [args, env] of [
      [["events", "counts", "--store", store], {}],
      [["events", "counts"], { STAYHOOK_STORE: store }],
      [["copy", "--from", store, "--to", "b.db"], {}],
      [["copy", "--from", "a.db", "--to", store], {}],
    ] as const) {
      const { code, stderr } = await cli(args, { env });
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    }
  },
);

describe("the access token", () => {
  test.each([
    ...[
      "--token",
      "--access-token",
      "--stayhook-access-token",
      "-token",
      "--api-key",
      "--accessToken",
    ].flatMap((option) => [`listings ${option} hunter2`, `listings ${option}=hunter2`]),
    "events --token hunter2 ls",
  ])("has no option: %s", async (line) => {
    const { code, stdout, stderr } = await cli(line);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("Set STAYHOOK_ACCESS_TOKEN.");
    expect(stderr).not.toContain("hunter2");
  });

  test.each(["listings -khunter2", "config get hunter2"])("is not in the error of: %s", async (line) => {
    const { code, stderr } = await cli(line);
    expect(code).toBe(2);
    expect(stderr).not.toContain("hunter2");
  });
});

describe("an error", () => {
  const env = { STAYHOOK_ACCESS_TOKEN: "wr0ng-token" };

  test.each([
    [401, 3],
    [403, 3],
    [404, 4],
    [429, 5],
    [500, 5],
    [503, 5],
    [418, 1],
  ])("of the platform's %i gives exit code %i, and is JSON with --json", async (status, expected) => {
    const { sandbox, env } = await platform();
    // The client does not retry, because it never waits as long as this retryAfter.
    sandbox.faults.set([{ status, retryAfter: 3600 }]);
    const { code, stdout, stderr } = await cli("listings --json", { env });
    expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
    expect(JSON.parse(stderr).error).toMatchObject({ name: expect.any(String), status });
    expect(stderr).not.toContain(sandbox.accessToken);
  });

  test.each([
    ["", closed, ": connection refused (ECONNREFUSED). Is STAYHOOK_BASE_URL right?"],
    // fetch refuses this port and gives no error code.
    ["", async () => "http://127.0.0.1:1", ": no complete answer (bad port)."],
    [
      "/api",
      () => serve((_, response) => response.writeHead(404).end()),
      " was answered with 404. Is the base",
    ],
  ])("names the URL and the reason once", async (path, origin, reason) => {
    const base = `${await origin()}${path}`;
    const { code, stderr } = await cli(`listings --base-url ${base}`, { env });
    expect(code).toBe(reason.includes("404") ? 4 : 5);
    expect(stderr).toMatch(/^[^\n]*\n$/);
    expect(stderr).toContain(`stayhook: GET ${base}/v2/listings${reason}`);
    expect(stderr).not.toMatch(/see error\.cause|wr0ng-token/);
  });

  test("names an invalid base URL, and a timeout", async () => {
    const invalid = await cli("listings --base-url http://example.com", { env });
    expect(invalid).toMatchObject({ code: 2, stderr: expect.stringContaining("--base-url") });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
      vi.unstubAllGlobals();
    });
    vi.stubGlobal("fetch", () => new Promise(() => {}));
    const ended = cli("listings --base-url https://stayhook.invalid", { env });
    await vi.advanceTimersByTimeAsync(120_000);
    expect(await ended).toMatchObject({
      code: 5,
      stderr: "stayhook: GET https://stayhook.invalid/v2/listings: no complete answer within 10000 ms.\n",
    });
  });
});

test("options may stand before the subcommand, and their values are not the subcommand", async () => {
  const missing = await cli("events --store replay ls");
  expect(missing).toMatchObject({ code: 4, stdout: "" });
  expect(missing.stderr).toContain("There is no file replay.");
  const { sandbox, env } = await platform();
  const { STAYHOOK_BASE_URL = "", ...token } = env;
  expect(JSON.parse((await cli("--json listings", { env })).stdout)).toEqual([]);
  expect((await cli(`config --base-url ${STAYHOOK_BASE_URL} get`, { env: token })).code).toBe(4);
  // A value that begins with a hyphen follows an equals sign.
  await sandbox.listings.submit({ listingId: 7 });
  expect(await cli("listings --status=-x", { env })).toEqual({ code: 0, stdout: "", stderr: "" });
});

test.each([
  [{}, true],
  [{ NO_COLOR: "1" }, false],
  [{ NO_COLOR: "" }, true],
  [{ TERM: "dumb" }, false],
  [{ FORCE_COLOR: "0" }, false],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true],
])("a terminal gets tables, and a pipe gets tabs; color with %j: %s", async (settings, isColored) => {
  const { sandbox, env } = await platform();
  await sandbox.listings.submit({ listingId: 7, listingName: "Harbour Loft" });
  const given = { env: { ...env, ...settings }, terminal: true };
  const { stdout } = await cli("listings", given);
  expect(plain(stdout)).toBe("LISTING  STATUS    NAME\n7        InReview  Harbour Loft\n");
  expect(stdout !== plain(stdout)).toBe(isColored);
  const { stderr } = await cli("nonsense", given);
  expect(stderr !== plain(stderr)).toBe(isColored);
  expect((await cli("listings", { ...given, terminal: false })).stdout).toBe("7\tInReview\tHarbour Loft\n");
});

test("text from outside cannot control the terminal or break lines", async () => {
  const { sandbox, env } = await platform();
  const listingName = "a\u001b]0;b\u0007\tc\nd\u202ee\u009b31m\u{e0041}\u007f\u2028";
  await sandbox.listings.submit({ listingId: 7, listingName });
  const table = await cli("listings", { env, terminal: true });
  expect(plain(table.stdout).split("\n")[1]).toBe(
    "7        InReview  a\\u001b]0;b\\u0007\\u0009c\\u000ad\\u202ee\\u009b31m\\u{e0041}\\u007f\\u2028",
  );
  const { stdout } = await cli("listings --json", { env, terminal: true });
  expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}]/u);
  expect(JSON.parse(stdout)).toMatchObject([{ listingName }]);
  const { stderr } = await cli(["booking", "a\u009b31mb"], { env });
  expect(stderr).toBe("stayhook: There is no booking a\\u009b31mb.\n");
});

describe("listings and booking", () => {
  test("print records, and warn of a list that may have further pages", async () => {
    const { sandbox, env } = await platform();
    await sandbox.listings.create({ listingId: 1, listingName: "A", status: "Hidden" });
    await sandbox.listings.create({ listingId: 2, listingName: "B", status: "Published", beds: 3 });
    const booking = await sandbox.bookings.request({ bookingCode: "HX3K9", guests: 2 });
    const json = async (line: string) => JSON.parse((await cli(`${line} --json`, { env })).stdout);
    expect(await json("listings")).toMatchObject([{ listingId: 1 }, { listingId: 2, beds: 3 }]);
    expect(await json("booking HX3K9")).toEqual(booking);
    for (const [line, out] of [
      ["listings --status Gone", /^$/],
      ["listings --status Published", /^2\tPublished\tB\n$/],
      ["booking HX3K9", /\nstatus\tRequest\n[\s\S]*guests\t2\n|guests\t2\n[\s\S]*status\tRequest\n/],
    ] as const)
      expect((await cli(line, { env })).stdout).toMatch(out);

    const data = [{ listingId: 1, listingName: "A", status: "Hidden" }];
    const url = await serve((_, response) => void response.end(JSON.stringify({ data, hasMore: true })));
    const { code, stdout, stderr } = await cli("listings", { env: { ...env, STAYHOOK_BASE_URL: url } });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "1\tHidden\tA\n" });
    expect(stderr).toMatch(/^stayhook: the list of listings may be incomplete: .* hints at more pages/);
  });

  test("booking ends with 4 for an unknown or a deleted booking, and asks for no empty code", async () => {
    const { env, sandbox } = await platform();
    const { code, stderr } = await cli("booking NONE --json", { env });
    expect(code).toBe(4);
    expect(JSON.parse(stderr)).toEqual({
      error: { name: "MissingError", message: "There is no booking NONE." },
    });
    const asked = sandbox.requests.length;
    expect(await cli(["booking", ""], { env })).toMatchObject({ code: 2, stdout: "" });
    expect(sandbox.requests).toHaveLength(asked);
    sandbox.faults.set([{ status: 410 }]);
    expect(await cli("booking HX3K9", { env })).toMatchObject({ code: 4, stdout: "" });
  });
});
