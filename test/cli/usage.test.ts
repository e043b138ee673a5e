import { describe, expect, onTestFinished, test, vi } from "vitest";
import { manifest } from "../package/support/pack.ts";
import { cli, closed, plain, platform } from "./support.ts";

const commands = [
  ["config"],
  ["config", "get"],
  ["config", "set"],
  ["config", "ensure"],
  ["config", "on"],
  ["config", "off"],
  ["config", "delete"],
  ["listings"],
  ["booking"],
  ["trigger"],
  ["sandbox"],
  ["console"],
  ["events"],
  ["events", "ls"],
  ["events", "show"],
  ["events", "replay"],
  ["events", "discard"],
  ["events", "prune"],
  ["events", "erase"],
  ["listen"],
  ["events", "counts"],
  ["reconcile"],
  ["doctor"],
  ["completion"],
];

describe("help", () => {
  test("lists the commands, the environment variables and the exit codes", async () => {
    const { code, stdout, stderr } = await cli(["--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const [name] of commands) expect(stdout).toMatch(new RegExp(`^  ${name} +\\w`, "m"));
    for (const name of ["BASE_URL", "ACCESS_TOKEN", "STORE", "ENDPOINT_BOOKINGS", "ENDPOINT", "TARGET"])
      expect(stdout).toContain(`STAYHOOK_${name} `);
    for (const exit of [0, 1, 2, 3, 4, 5, 130]) expect(stdout).toMatch(new RegExp(`^  ${exit} +\\w`, "m"));
    expect((await cli(["help"])).stdout).toBe(stdout);
    expect((await cli(["-h"])).stdout).toBe(stdout);
  });

  test.each(commands)("of %s %s has its usage and an example", async (...path) => {
    const asked = path.filter((name) => name !== undefined);
    const { code, stdout, stderr } = await cli([...asked, "--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`^Usage: stayhook ${asked.join(" ")}`));
    expect(stdout).toMatch(new RegExp(`^Examples?:\n  stayhook ${asked.join(" ")}`, "m"));
    expect((await cli(["help", ...asked])).stdout).toBe(stdout);
  });

  test("names the exit code of Ctrl-C, also for the commands that run until Ctrl-C", async () => {
    const text = (await cli(["--help"])).stdout.replace(/\s+/g, " ");
    expect(text).toContain(
      '130 interrupted by Ctrl-C; sandbox, console, listen and "events ls --follow" run until Ctrl-C, and then end with 0',
    );
  });

  test("goes to stderr if the command is missing", async () => {
    expect(await cli([])).toMatchObject({ code: 2, stdout: "" });
    const group = await cli(["config"]);
    expect(group).toMatchObject({ code: 2, stdout: "" });
    expect(group.stderr).toContain("Usage: stayhook config <command>");
  });
});

test("--version prints the package's version", async () => {
  expect(await cli(["--version"])).toMatchObject({ code: 0, stdout: `${manifest.version}\n` });
  expect(JSON.parse((await cli(["version", "--json"])).stdout)).toEqual({ version: manifest.version });
});

describe("wrong usage ends with 2 and an error", () => {
  test.each([
    [["nonsense"], "There is no command nonsense. See stayhook --help."],
    [["listing"], 'There is no command listing. Did you mean "stayhook listings"?'],
    [["events", "lss"], 'There is no command lss. Did you mean "stayhook events ls"?'],
    [["config", "hunter2"], "There is no such command. See stayhook config --help."],
    [["--store", "x", "events"], "The command must come before its options."],
    [["-V"], "Did you mean -v or --version?"],
    [["list"], 'Did you mean "stayhook listings"?'],
    [["ls"], 'Did you mean "stayhook events ls"?'],
    [["events", "list"], 'Did you mean "stayhook events ls"?'],
    [["events", "--store", "x"], "The command must come before its options."],
    [
      ["events", "counts", "--store", "events.db", "--schema", "other"],
      "--schema works only with PostgreSQL.",
    ],
    [
      ["events", "counts", "--store", "mysql://x/y", "--schema", "other"],
      "--schema works only with PostgreSQL.",
    ],
    [["events", "counts", "--store", "events.db", "--prefix", "other"], "--prefix works only with Redis."],
    [["completion", "tcsh"], "<shell> must be bash, zsh or fish."],
    [["completion"], "<shell> is missing"],
    [["listings", "--nonsense"], "There is no option --nonsense. See stayhook listings --help."],
    [["listings", "--statis", "x"], "There is no option --statis. Did you mean --status?"],
    [["listings", "extra"], "There are too many arguments."],
    [["booking"], "<code> is missing"],
    [["booking", "A", "B"], "There are too many arguments."],
    [["listings", "--status"], "--status requires a value."],
    [["listings", "--status", "-x"], "--status requires a value."],
    [["config", "off", "-yx"], "There is no option -x."],
    [["listings", "--json=yes"], "--json takes no value"],
    [["listings"], "STAYHOOK_BASE_URL"],
    [["events", "counts"], "STAYHOOK_STORE"],
    [["events", "ls", "--state", "gone", "--store", "x"], "--state must be one of scheduled"],
    [
      ["events", "ls", "--type", "booking.Confirmd", "--store", "x"],
      "--type must be one of booking.Initiated",
    ],
    [["events", "ls", "--limit", "0", "--store", "x"], "--limit must be an integer"],
    [["events", "replay", "--store", "x"], "Give ids of events, or a filter, or --all."],
    [["events", "replay", "--all", "A", "--store", "x"], "Give ids of events, or a filter, or --all."],
    [["events", "replay", "--reason", "callback", "A", "--store", "x"], "Give ids of events, or"],
    [
      ["events", "replay", "--state", "pending", "--store", "x"],
      "--state must be one of retrying, done, parked, scheduled.",
    ],
    [["events", "ls", "--ref", "guest:HX3K9", "--store", "x"], "such as booking:HX3K9"],
    [
      ["events", "ls", "--follow", "--limit", "3", "--store", "x"],
      "--follow cannot be combined with --limit.",
    ],
    [["events", "ls", "--reason", "bad", "--store", "x"], "--reason must be one of callback"],
    [
      ["events", "ls", "--since", "yesterday", "--store", "x"],
      "--since must be an age such as 2h, or a time",
    ],
    [["events", "ls", "--until", "2", "--store", "x"], "--until must be an age"],
    [["config", "off"], "--yes"],
    [["config", "delete"], "--yes"],
    [["config", "ensure", "--to", "https://x.example", "--bookings", "https://x.example"], "but not both."],
    [
      ["events", "counts", "--store", "mongodb://x/y"],
      "--store or STAYHOOK_STORE must be an SQLite file, or a postgres://",
    ],
    [["events", "erase", "HX3K9", "--store", "x"], "such as booking:HX3K9"],
    [["listen", "--store", "x"], "--to or STAYHOOK_TARGET"],
    [["listen", "--to", "nowhere", "--store", "x"], "--to or STAYHOOK_TARGET must be an http or https URL."],
    [["sandbox", "--retry", "1s,soon"], "--retry must be a list of times such as 1s,10s,1m."],
    [["sandbox", "--delay", "1s-2s-3s"], "--delay must be a time such as 2s, or a range"],
    [["sandbox", "--timeout", ""], "--timeout must be a time"],
    [["sandbox", "--port", "many"], "--port must be an integer"],
    [["console", "--port", "70000"], "--port must be an integer from 0 to 65535."],
    [["trigger", "nonsense", "--to", "http://127.0.0.1:1"], "The first argument must be"],
    [["trigger", "booking.Nonsense", "--to", "http://127.0.0.1:1"], "The first argument must be"],
    [["trigger", "listing", "abc", "--to", "http://127.0.0.1:1"], "an integer"],
    [["trigger", "booking", "A", "--to", "nowhere"], "--to or STAYHOOK_TARGET must be"],
    [["trigger", "message", "A", "--to", "http://127.0.0.1:1"], "A message has no code or id."],
    [
      ["trigger", "listing", "7", "--booking", "A", "--to", "http://127.0.0.1:1"],
      "--booking works only with",
    ],
    [["config", "ensure"], "at least one of --bookings"],
  ])("%j", async (args, message) => {
    const { code, stdout, stderr } = await cli(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
  });

  test("an invalid base URL", async () => {
    const { code, stderr } = await cli(["listings", "--base-url", "http://example.com"], {
      env: { STAYHOOK_ACCESS_TOKEN: "t" },
    });
    expect(code).toBe(2);
    expect(stderr).toContain("--base-url");
  });
});

describe("the access token", () => {
  test.each(["--token", "--access-token", "--stayhook-access-token", "-token", "--api-key", "--accessToken"])(
    "has no option: %s",
    async (option) => {
      for (const args of [[option, "hunter2"], [`${option}=hunter2`]]) {
        const { code, stdout, stderr } = await cli(["listings", ...args]);
        expect(code).toBe(2);
        expect(stderr).toContain("Set STAYHOOK_ACCESS_TOKEN.");
        expect(stdout + stderr).not.toContain("hunter2");
      }
    },
  );

  test("is not in the error if the platform refuses it", async () => {
    const { env } = await platform();
    const { code, stderr } = await cli(["listings"], {
      env: { ...env, STAYHOOK_ACCESS_TOKEN: "wr0ng-token" },
    });
    expect(code).toBe(3);
    expect(stderr).toContain("401");
    expect(stderr).not.toContain("wr0ng-token");
  });

  test("is not in the error if it follows the letter of an option", async () => {
    const { code, stderr } = await cli(["listings", "-khunter2"]);
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("no option -k.") });
  });

  test("is not in the error if it stands before the subcommand", async () => {
    const { code, stderr } = await cli(["events", "--token", "hunter2", "ls"]);
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("STAYHOOK_ACCESS_TOKEN"),
    });
    expect(stderr).not.toContain("hunter2");
  });

  test("is not in the error of too many arguments", async () => {
    const { stderr } = await cli(["config", "get", "hunter2"]);
    expect(stderr).not.toContain("hunter2");
  });
});

test("errors are JSON with --json", async () => {
  const { env } = await platform();
  const missing = await cli(["booking", "NONE", "--json"], { env });
  expect(missing).toMatchObject({ code: 4, stdout: "" });
  expect(JSON.parse(missing.stderr)).toEqual({
    error: { name: "MissingError", message: "There is no booking NONE." },
  });
  const away = await cli(["booking", "NONE", "--base-url", "http://127.0.0.1:1", "--json"], { env });
  expect(away.code).toBe(5);
  expect(JSON.parse(away.stderr)).toMatchObject({ error: { name: "ConnectionError" } });
  const refused = await cli(["listings", "--json"], { env: { ...env, STAYHOOK_ACCESS_TOKEN: "wrong" } });
  expect(refused.code).toBe(3);
  expect(JSON.parse(refused.stderr)).toMatchObject({ error: { name: "AuthenticationError", status: 401 } });
});

test.each([
  [401, 3],
  [403, 3],
  [404, 4],
  [429, 5],
  [500, 5],
  [503, 5],
  [418, 1],
])("the platform's %i gives exit code %i", async (status, expected) => {
  const { sandbox, env } = await platform();
  // The client does not retry, because it never waits as long as this retryAfter.
  sandbox.faults.set([{ status, retryAfter: 3600 }]);
  const { code, stdout, stderr } = await cli(["listings", "--json"], { env });
  expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
  expect(JSON.parse(stderr).error).toMatchObject({ status });
});

test("booking ends with 4 if the platform answers 410", async () => {
  const { sandbox, env } = await platform();
  sandbox.faults.set([{ status: 410 }]);
  expect(await cli(["booking", "HX3K9"], { env })).toMatchObject({ code: 4, stdout: "" });
});

test("an error names the host and the reason", async () => {
  const baseUrl = await closed();
  const { code, stderr } = await cli(["listings", "--base-url", baseUrl], {
    env: { STAYHOOK_ACCESS_TOKEN: "t" },
  });
  expect(code).toBe(5);
  expect(stderr).toContain("ECONNREFUSED");
  expect(stderr).not.toContain("see error.cause");
  // The message contains the reason only once.
  expect(stderr).toBe(
    `stayhook: GET ${baseUrl}/v2/listings: connection refused (ECONNREFUSED). Is STAYHOOK_BASE_URL right?\n`,
  );
  // fetch refuses this port and gives no error code.
  const refused = await cli(["listings", "--base-url", "http://127.0.0.1:1"], {
    env: { STAYHOOK_ACCESS_TOKEN: "t" },
  });
  expect(refused.stderr).toBe(
    "stayhook: GET http://127.0.0.1:1/v2/listings: no complete answer (bad port).\n",
  );
});

test("an error names a timeout", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  vi.stubGlobal("fetch", () => new Promise(() => {}));
  const ended = cli(["listings", "--base-url", "https://stayhook.invalid"], {
    env: { STAYHOOK_ACCESS_TOKEN: "t" },
  });
  await vi.advanceTimersByTimeAsync(120_000);
  expect(await ended).toMatchObject({
    code: 5,
    stderr: "stayhook: GET https://stayhook.invalid/v2/listings: no complete answer within 10000 ms.\n",
  });
});

test("the value of an option before the subcommand is not the subcommand", async () => {
  const { code, stdout, stderr } = await cli(["events", "--store", "replay", "ls"]);
  expect({ code, stdout }).toEqual({ code: 4, stdout: "" });
  expect(stderr).toContain("There is no file replay.");
});

test("--json may stand before the command, and options before the subcommand", async () => {
  const { env } = await platform();
  const { STAYHOOK_BASE_URL = "", ...token } = env;
  expect(JSON.parse((await cli(["--json", "listings"], { env })).stdout)).toEqual([]);
  const { code } = await cli(["config", "--base-url", STAYHOOK_BASE_URL, "get"], { env: token });
  expect(code).toBe(4);
});

test("a value that begins with a hyphen follows an equals sign", async () => {
  const { sandbox, env } = await platform();
  await sandbox.listings.submit({ listingId: 7 });
  expect(await cli(["listings", "--status=-x"], { env })).toEqual({ code: 0, stdout: "", stderr: "" });
});

test("a terminal gets tables in color, and a pipe gets tabs", async () => {
  const { sandbox, env } = await platform();
  await sandbox.listings.submit({ listingId: 7, listingName: "Harbour Loft" });
  const piped = await cli(["listings"], { env });
  expect(piped.stdout).toBe("7\tInReview\tHarbour Loft\n");
  const shown = await cli(["listings"], { env, terminal: true });
  expect(shown.stdout).not.toBe(plain(shown.stdout));
  expect(plain(shown.stdout)).toBe("LISTING  STATUS    NAME\n7        InReview  Harbour Loft\n");
});

test.each([
  [{ NO_COLOR: "1" }, false],
  [{ NO_COLOR: "" }, true],
  [{ TERM: "dumb" }, false],
  [{ FORCE_COLOR: "0" }, false],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true],
])("color on a terminal with %j: %s", async (settings, colored) => {
  const { sandbox, env } = await platform();
  await sandbox.listings.submit({ listingId: 7 });
  const given = { ...env, ...settings };
  const { stdout } = await cli(["listings"], { env: given, terminal: true });
  expect(plain(stdout)).toMatch(/^LISTING /);
  expect(stdout !== plain(stdout)).toBe(colored);
  const wrong = await cli(["nonsense"], { env: given, terminal: true });
  expect(wrong.stderr !== plain(wrong.stderr)).toBe(colored);
  const piped = await cli(["listings"], { env: given });
  expect(piped.stdout).toMatch(/^7\t/);
  expect(plain(piped.stdout)).toBe(piped.stdout);
});

test("text from outside cannot control the terminal or break lines", async () => {
  const { sandbox, env } = await platform();
  const listingName = "a\u001b]0;b\u0007\tc\nd\u202ee\u009b31m\u{e0041}\u007f\u2028";
  await sandbox.listings.submit({ listingId: 7, listingName });
  const table = await cli(["listings"], { env, terminal: true });
  expect(plain(table.stdout).split("\n")[1]).toBe(
    "7        InReview  a\\u001b]0;b\\u0007\\u0009c\\u000ad\\u202ee\\u009b31m\\u{e0041}\\u007f\\u2028",
  );
  const { stdout } = await cli(["listings", "--json"], { env, terminal: true });
  expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}]/u);
  expect(JSON.parse(stdout)).toMatchObject([{ listingName }]);
  const { stderr } = await cli(["booking", "a\u009b31mb"], { env });
  expect(stderr).toBe("stayhook: There is no booking a\\u009b31mb.\n");
});
