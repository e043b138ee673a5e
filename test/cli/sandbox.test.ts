import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StayhookClient } from "stayhook";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { cli, directory, receiver, serve, start } from "./support.ts";

/** Starts the command on a free port. Resolves when the sandbox listens. */
async function sandbox(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const running = start(["sandbox", "--port", "0", ...args], { env });
  const url = await eventually(() => {
    const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(running.stdout()) ?? [];
    expect(found).toBeDefined();
    return found as string;
  });
  const accessToken = env.STAYHOOK_ACCESS_TOKEN ?? "sandbox-token";
  const client = new StayhookClient({ baseUrl: url, accessToken, maxRetries: 0 });
  /** Types a line, and waits for its output. */
  const says = async (line: string, expected: string | RegExp) => {
    const from = [running.stdout().length, running.stderr().length];
    running.type(line);
    await eventually(() =>
      expect(running.stdout().slice(from[0]) + running.stderr().slice(from[1])).toMatch(expected),
    );
  };
  return { ...running, url, client, says };
}

describe("sandbox", () => {
  test("serves the platform's API, and prints a line for each request", async () => {
    const { url, stdout, client } = await sandbox();
    expect(stdout()).toContain(`STAYHOOK_BASE_URL=${url} STAYHOOK_ACCESS_TOKEN=sandbox-token`);
    expect(stdout()).toContain(`Open ${url} in a browser`);
    expect(await (await fetch(url)).text()).toContain("No deliveries yet.");
    expect(await client.listings.list()).toEqual([]);
    await eventually(() => expect(stdout()).toMatch(/^\d\d:\d\d:\d\d\.\d{3} <- GET \/v2\/listings: 200$/m));

    const own = await sandbox([], { STAYHOOK_ACCESS_TOKEN: "my-0wn-token" });
    await own.client.listings.list();
    expect(own.stdout() + own.stderr()).not.toContain("my-0wn-token");
    expect(await cli(`sandbox --port ${new URL(url).port}`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("0 for a free port"),
    });
  });

  test("runs typed commands, and prints their errors and each delivery", async () => {
    const { received, url: to } = await receiver();
    const { says, client, stdout } = await sandbox(["--to", `${to}?key=s3cret`]);
    for (const [line, expected] of [
      ["redeliver", "has not delivered any notification yet."],
      ["request AB12", /listing \d+ \(.+\) is Published\nbooking AB12 is Request\n[\s\S]*: 200 in \d+ ms$/m],
      ["approve AB12", /booking AB12 is Confirmed\n[\s\S]*-> bookings AB12 \S+ to \S+: 200 in \d+ ms$/m],
      ["alter AB12 checkIn=2030-07-01 checkOut=2030-07-04", /: 200 in \d+ ms$/m],
      ["alter AB12 tomorrow", "Write each field as <field>=<value>, such as checkIn=2026-07-03"],
      ["approve", "approve needs an argument: approve <code>"],
      ["approve NONE", "there is no booking NONE"],
      ["constructor", "There is no command constructor. To list the commands, type: help"],
      ["deliver", "There is no command deliver. Did you mean redeliver?"],
      ["aprove AB12", "There is no command aprove. Did you mean approve? To list the commands, type: help"],
      ["reject AB12", "There is no command reject."],
      [
        "alter AB12 checkOut=2030-06-30",
        "checkOut: must not be before checkIn: 2030-06-30 is before 2030-07-01",
      ],
      ["publish x", "there is no listing NaN"],
      ["fault often", "status"],
      ["help", /^ {2}request \[code\] +a guest requests/m],
      ["send not json", ": 200 in"],
      ["book AB13", /^booking AB13 is Confirmed\n[\s\S]*: 200 in/],
      ["fault 503 GET /v2/listings", "From now on, GET /v2/listings will get this fault: 503.\n"],
      ["fault 500 GET /v2/webhooks/config", "this fault: 500"],
    ] as const)
      await says(line, expected);
    const stay = { status: "Confirmed", checkIn: "2030-07-01", checkOut: "2030-07-04" };
    expect(await client.bookings.get("AB12")).toMatchObject(stay);
    await expect(client.listings.list()).rejects.toMatchObject({ status: 503 });
    await expect(client.webhookConfig.get()).rejects.toMatchObject({ status: 500 });
    await says("heal", "2 faults ended. The API answers every request again.\n");
    // Only the first booking made a listing.
    expect(await client.listings.list()).toMatchObject([{ status: "Published" }]);
    expect(received()).toHaveLength(5);
    expect(received()[3]).toBe("not json");

    await says("submit Old Mill", "(Old Mill) is InReview");
    const [, id = ""] = /listing (\d+) \(Old Mill\)/.exec(stdout()) ?? [];
    await says(`publish ${id}`, /-> listings \d+ \S+ to \S+: 200 in/);
    await says(`hide ${id}`, "(Old Mill) is Hidden");
    await says("list", /booking AB13 is Confirmed\nlisting [\s\S]*\(Old Mill\) is Hidden\n/);
    expect(stdout()).not.toContain("s3cret");
  });

  test("runs lines in order that were typed before, also empty ones, and goes on after an error", async () => {
    const { type, stdout, stderr } = await sandbox();
    for (const line of ["", "  ", "approve AB12", "request AB12", "send {}", "approve AB12"]) type(line);
    await eventually(() =>
      expect(stdout()).toContain("booking AB12 is Request\nbooking AB12 is Confirmed\n"),
    );
    expect(stderr()).toContain("there is no booking AB12");
    expect(stderr()).toContain("no active webhook configuration has a URL");
  });

  test("duplicate, drop, redeliver and advance are commands, too", async () => {
    const { url: to, received } = await receiver();
    const { says } = await sandbox(["--to", to, "--delay", "1h"]);
    await says("duplicate", "The sandbox will send each later notification twice.\n");
    await says("drop", "will drop all later notifications");
    await says("drop", "will send all later notifications");
    await says("book X1", "booking X1 is Confirmed");
    await says("advance 60", /: 200 in \d+ ms\n[\s\S]*: 200 in \d+ ms\n/);
    await says("duplicate", "once");
    await says("book X2", "booking X2 is Confirmed");
    await says("advance 60", ": 200 in");
    const [first = "", , second = ""] = received();
    await says("redeliver", ": 200 in");
    await says(`redeliver ${JSON.parse(first).eventId}`, ": 200 in");
    expect(received().slice(3)).toEqual([second, first]);
    await says("redeliver 00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000");
  });

  test("configures the URL of --to, stdin or STAYHOOK_TARGET for all topics, with the topic in the query", async () => {
    const { url: to } = await receiver();
    const endpoints = Object.fromEntries(
      ["bookings", "listings", "messages"].map((topic) => [
        topic,
        `${new URL(to).href}?key=s3cret&topic=${topic}`,
      ]),
    );
    for (const [args, env, line] of [
      [["--to", `${to}?key=s3cret`], {}, undefined],
      [[], { STAYHOOK_TARGET: `${to}?key=s3cret` }, undefined],
      [["--to", "-"], { STAYHOOK_TARGET: "http://127.0.0.1:1" }, `${to}?key=s3cret`],
    ] as const) {
      const running = await sandbox(args, env);
      if (line !== undefined) running.type(line);
      running.type("book X1");
      await eventually(() => expect(running.stdout()).toContain("booking X1 is Confirmed"));
      expect(await running.client.webhookConfig.get()).toEqual({ isActive: true, endpoints });
      expect(/Other users of this machine/.test(running.stderr())).toBe(args.length > 0 && args[1] !== "-");
    }
    const wrong = await sandbox(["--to", "-"]);
    wrong.type("ftp://example.com?key=s3cret");
    const { code, stderr } = await wrong.ended;
    expect(code).toBe(2);
    expect(stderr).not.toContain("s3cret");
  });

  test("--drop loses notifications", async () => {
    const { url: to, received } = await receiver();
    const { says } = await sandbox(["--to", to, "--drop", "1"]);
    await says("book X1", "dropped on purpose");
    expect(received()).toEqual([]);
  });

  test("--retry, --timeout and --delay change the deliveries", async () => {
    let asked = 0;
    const to = await serve((_request, response) => {
      asked += 1;
      if (asked === 2) return;
      response.writeHead(asked < 3 ? 500 : 200).end();
    });
    // On a busy machine, the other answers may take some 100 ms.
    const running = await sandbox(["--retry", "1,20ms", "--timeout", "2s", "--delay", "1-5ms"], {
      STAYHOOK_TARGET: to,
    });
    running.type("book X1");
    await eventually(() => expect(running.stdout()).toMatch(/attempt 3\) to \S+: 200 in \d+ ms$/m));
    expect(running.stdout()).toMatch(/ to \S+: 500 in \d+ ms\n/);
    expect(running.stdout()).toMatch(/attempt 2\) to \S+: no answer within 2 s in \d+ ms\n/);
  });

  test("the configuration of --to, and the files that a browser asks for, are no requests to the API", async () => {
    const { url: to } = await receiver();
    const { url, stdout } = await sandbox(["--to", to]);
    for (const path of ["/favicon.ico", "/.well-known/appspecific/com.chrome.devtools.json"])
      expect((await fetch(url + path)).status).toBe(404);
    expect(await (await fetch(url)).text()).toContain("No requests yet.");
    expect(stdout()).not.toContain("404");
    await fetch(`${url}/v3/bookings`, { headers: { authorization: "Bearer sandbox-token" } });
    await eventually(() => expect(stdout()).toContain("<- GET /v3/bookings: 404"));
    const wrong = await cli(["sandbox", "--port", "0", "--to", `${to}?topic=bookings&key=s3cret`]);
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("The URL of --to must not have a `topic`"),
    });
    expect(wrong.stderr).not.toContain("s3cret");
  });

  test("goes on at the end of stdin, and ends by Ctrl-C", async () => {
    const running = await sandbox();
    running.endInput();
    expect((await fetch(`${running.url}/v2/listings`)).status).toBe(401);
    running.interrupt();
    expect(await running.ended).toMatchObject({ code: 0 });
  });

  test("prints a line of JSON for each event with --json", async () => {
    const { url: to } = await receiver();
    const env = { STAYHOOK_TARGET: `${to}?key=s3cret` };
    const running = await sandbox(["--json", "--duplicates", "1", "--delay", "7ms-7"], env);
    running.type("request AB12");
    const parsed = (lines: string) =>
      lines
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    const kinds = () => parsed(running.stdout()).map(({ kind }) => kind as string);
    await eventually(() => expect(kinds().filter((kind) => kind === "delivery")).toHaveLength(2));
    expect(running.stdout().match(/"delay":7,/g)).toHaveLength(2);
    expect(kinds()[0]).toBe("listening");
    expect(new Set(kinds())).toEqual(new Set(["listening", "record", "delivery"]));
    expect(running.stdout()).not.toContain("s3cret");
    running.type("nonsense");
    running.type("publish 1");
    const error = { error: { message: expect.any(String) } };
    await eventually(() => expect(parsed(running.stderr())).toEqual([error, error]));
  });

  test("--demo begins with a few listings and bookings of each status, and sends nothing", async () => {
    const { url: to, received } = await receiver();
    const { client, says } = await sandbox(["--demo", "--to", to]);
    const statuses = new Set((await client.listings.list()).map(({ status }) => status));
    expect(statuses).toEqual(new Set(["Published", "InReview", "Hidden"]));
    for (const status of ["Request", "Confirmed", "Declined", "Cancelled"])
      await says("list", new RegExp(`^booking \\w+ is ${status}$`, "m"));
    expect(received()).toEqual([]);
  });

  describe("--state", () => {
    test("keeps bookings, listings and the webhook configuration over a restart", async () => {
      const file = join(directory(), "sandbox.json");
      const { url: to, received } = await receiver();
      const first = await sandbox(["--state", file, "--to", to, "--demo"]);
      await first.says("request AB12", ": 200 in");
      await first.says("alter AB12 checkIn=2030-07-01 checkOut=2030-07-04 guest=Ann", ": 200 in");
      await first.says("submit Old Mill", "(Old Mill) is InReview");
      const [, id = ""] = /listing (\d+) \(Old Mill\)/.exec(first.stdout()) ?? [];
      await first.says(`publish ${id}`, ": 200 in");
      // The file is written after each change, so that even a killed sandbox loses nothing.
      expect(readFileSync(file, "utf8")).toContain("AB12");
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const config = await first.client.webhookConfig.get();
      const listings = await first.client.listings.list();
      first.interrupt();
      await first.ended;

      const second = await sandbox(["--state", file, "--demo"]);
      expect(await second.client.webhookConfig.get()).toEqual(config);
      expect(await second.client.listings.list()).toEqual(listings);
      const booking = { status: "Request", checkIn: "2030-07-01", checkOut: "2030-07-04", guest: "Ann" };
      expect(await second.client.bookings.get("AB12")).toMatchObject(booking);
      await second.says(`hide ${id}`, "is Hidden");
      await second.says(`publish ${id}`, "is Published");
      await second.says("approve AB12", ": 200 in");
      // A listing that was published before sends no notification, and no event id comes again.
      const sent = received().map((body) => JSON.parse(body));
      expect(sent).toHaveLength(4);
      expect(sent[3]).toMatchObject({ bookingCode: "AB12" });
      expect(new Set(sent.map(({ eventId }) => eventId)).size).toBe(4);
    });

    test("is refused with --seed, and for a file that is no state or cannot be written", async () => {
      const file = join(directory(), "sandbox.json");
      const refused = (...args: string[]) => cli(["sandbox", "--port", "0", ...args]);
      expect(await refused("--state", file, "--seed", "7")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("--seed cannot be combined with --state"),
      });
      for (const text of ["no json", "{}", '{"bookings":[{}]}']) {
        writeFileSync(file, text);
        const { code, stderr } = await refused("--state", file);
        expect({ code, stderr }).toEqual({
          code: 1,
          stderr: expect.stringContaining(`${file} does not hold the state of a sandbox.`),
        });
        expect(readFileSync(file, "utf8")).toBe(text);
      }
      expect((await refused("--state", join(file, "below"))).stderr).toContain("cannot be read");
      expect((await refused("--state", `${file}-none/sandbox.json`)).stderr).toContain("cannot be written");
    });
  });

  test("--seed repeats the codes", async () => {
    const codes = [];
    for (const seed of ["7", "7", "8"]) {
      const { says, stdout } = await sandbox(["--seed", seed]);
      await says("request", /booking \S+ is Request/);
      codes.push(/booking (\S+) is Request/.exec(stdout())?.[1]);
    }
    expect(codes[0]).toBe(codes[1]);
    expect(codes[0]).not.toBe(codes[2]);
  });
});

describe("sandbox --accounts", () => {
  test("has records of each account, and the shell chooses one", async () => {
    const { type, stdout, stderr } = await sandbox(["--accounts", "a17,b2"]);
    expect(stdout()).toContain(
      "It has the accounts a17, b2. The token of an account is sandbox-token-<account>.",
    );
    type("request AAA1");
    await eventually(() => expect(stdout()).toContain("booking AAA1 is Request"));
    type("account b2");
    await eventually(() => expect(stdout()).toContain("The commands act on account b2. Others: a17."));
    type("approve AAA1");
    await eventually(() => expect(stderr()).toContain("there is no booking AAA1"));
    type("account c3");
    await eventually(() => expect(stderr()).toContain("must be an account of the sandbox: a17, b2"));
    type("account a17");
    type("approve AAA1");
    await eventually(() => expect(stdout()).toContain("booking AAA1 is Confirmed"));
  });

  test("--to names the account in the URL of each, and each line names the account", async () => {
    const taken: string[] = [];
    const url = await serve((request, response) => {
      taken.push(new URL(request.url ?? "", "http://h").searchParams.get("account") ?? "none");
      response.end();
    });
    const { type, stdout } = await sandbox(["--accounts", "a17,b2", "--to", `${url}/hooks`]);
    type("book AAA1");
    await eventually(() => expect(stdout()).toMatch(/ a17 -> bookings .*: 200 in/));
    type("account b2");
    type("book BBB1");
    await eventually(() => expect(stdout()).toMatch(/ b2 -> bookings .*: 200 in/));
    expect(taken).toEqual(["a17", "b2"]);
  });

  test("--demo fills each account", async () => {
    const { type, stdout } = await sandbox(["--accounts", "a17,b2", "--demo"]);
    for (const account of ["a17", "b2"]) {
      const from = stdout().length;
      type(`account ${account}`);
      type("list");
      await eventually(() =>
        expect(stdout().slice(from)).toMatch(/booking \w+ is Declined[\s\S]*is InReview/),
      );
    }
  });

  test("--state keeps the records of each account", async () => {
    const file = join(directory(), "state.json");
    const first = await sandbox(["--accounts", "a17,b2", "--state", file]);
    first.type("request AAA1");
    await eventually(() => expect(first.stdout()).toContain("booking AAA1 is Request"));
    first.type("quit");
    await first.ended;
    const second = await sandbox(["--accounts", "a17,b2", "--state", file]);
    second.type("list");
    await eventually(() => expect(second.stdout()).toContain("booking AAA1 is Request"));
    second.type("quit");
    await second.ended;
    const { code, stderr } = await cli(`sandbox --port 0 --state ${file}`);
    expect(code).toBe(1);
    expect(stderr).toContain("holds the state of accounts. Name them with --accounts.");
  });
});
