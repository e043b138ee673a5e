import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StayhookClient } from "stayhook";
import { describe, expect, test } from "vitest";
import { cli, directory, receiver, serve, start, until } from "./support.ts";

/** Starts the command on a free port. Resolves when the sandbox listens. */
async function sandbox(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const running = start(["sandbox", "--port", "0", "--seed", "7", ...args], { env });
  const url = await until(() => {
    const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(running.stdout()) ?? [];
    expect(found).toBeDefined();
    return found as string;
  });
  return { ...running, url };
}

describe("sandbox", () => {
  test("serves the platform's API, and prints a line for each request", async () => {
    const { url, stdout } = await sandbox();
    expect(stdout()).toContain(`STAYHOOK_BASE_URL=${url} STAYHOOK_ACCESS_TOKEN=sandbox`);
    expect(stdout()).toContain(`Open ${url} in a browser`);
    expect(await (await fetch(url)).text()).toContain("No deliveries yet.");
    const client = new StayhookClient({ baseUrl: url, accessToken: "sandbox" });
    expect(await client.listings.list()).toEqual([]);
    await until(() => expect(stdout()).toMatch(/^\d\d:\d\d:\d\d\.\d{3} <- GET \/v2\/listings: 200$/m));

    const own = await sandbox([], { STAYHOOK_ACCESS_TOKEN: "my-0wn-token" });
    await new StayhookClient({ baseUrl: own.url, accessToken: "my-0wn-token" }).listings.list();
    expect(own.stdout() + own.stderr()).not.toContain("my-0wn-token");
    expect(await cli(`sandbox --port ${new URL(url).port}`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("0 for a free port"),
    });
  });

  test("runs typed commands in order, and prints each delivery", async () => {
    const { received, url: to } = await receiver();
    const running = await sandbox(["--to", `${to}?key=s3cret`]);
    for (const line of [
      "request AB12",
      "approve AB12",
      "alter AB12 checkIn=2030-07-01 checkOut=2030-07-04",
      "alter AB12 tomorrow",
      "approve",
      "submit Old Mill",
      "list",
    ])
      running.type(line);
    await until(() =>
      expect(running.stdout().match(/-> bookings \S+ to \S+: 200 in \d+ ms$/gm)).toHaveLength(3),
    );
    const client = new StayhookClient({ baseUrl: running.url, accessToken: "sandbox" });
    expect(await client.bookings.get("AB12")).toMatchObject({
      status: "Confirmed",
      checkIn: "2030-07-01",
      checkOut: "2030-07-04",
    });
    expect(running.stderr()).toContain("Write each field as <field>=<value>, such as checkIn=2026-07-03");
    expect(running.stderr()).toContain("approve needs an argument: approve <code>");
    const { stdout } = running;
    expect(stdout()).toContain("booking AB12 is Request\nbooking AB12 is Confirmed\n");
    const [, id = ""] = /listing (\d+) \(Old Mill\) is InReview/.exec(stdout()) ?? [];
    running.type(`publish ${id}`);
    await until(() => expect(stdout()).toMatch(/-> listings \S+ to \S+: 200 in/));
    running.type(`hide ${id}`);
    running.type("send not json");
    await until(() => expect(received()).toContain("not json"));
    expect(stdout()).toContain(`listing ${id} (Old Mill) is Hidden`);
    expect(stdout()).not.toContain("s3cret");
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
      await until(() => expect(running.stdout()).toContain("booking X1 is Confirmed"));
      const client = new StayhookClient({ baseUrl: running.url, accessToken: "sandbox" });
      expect(await client.webhookConfig.get()).toEqual({ isActive: true, endpoints });
      expect(/Other users of this machine/.test(running.stderr())).toBe(args.length > 0 && args[1] !== "-");
    }
    const wrong = await sandbox(["--to", "-"]);
    wrong.type("ftp://example.com?key=s3cret");
    const { code, stderr } = await wrong.ended;
    expect(code).toBe(2);
    expect(stderr).not.toContain("s3cret");
  });

  test("fault and heal change the answers", async () => {
    const running = await sandbox();
    const client = new StayhookClient({ baseUrl: running.url, accessToken: "sandbox", maxRetries: 0 });
    const type = async (line: string) => {
      running.type(line);
      running.type("list");
      const printed = running.stdout().length;
      await until(() => expect(running.stdout().length).toBeGreaterThan(printed));
    };
    running.type("book X1");
    await type("fault 503 GET /v2/listings");
    await type("fault 500 GET /v2/webhooks/config");
    await expect(client.listings.list()).rejects.toMatchObject({ status: 503 });
    await expect(client.webhookConfig.get()).rejects.toMatchObject({ status: 500 });
    expect(await client.bookings.get("X1")).toMatchObject({ bookingCode: "X1" });
    expect(running.stdout()).toContain("From now on, GET /v2/listings will get this fault: 503.\n");
    await type("heal");
    expect(running.stdout()).toContain("2 faults ended. The API answers every request again.\n");
    expect(await client.listings.list()).toHaveLength(1);
    running.type("fault often");
    await until(() => expect(running.stderr()).toContain("status"));
  });

  test("the first booking makes a listing that the app can read, and a later booking does not", async () => {
    const running = await sandbox();
    running.type("request AB12");
    running.type("book AB13");
    await until(() => expect(running.stdout()).toContain("booking AB13 is Confirmed"));
    expect(running.stdout()).toMatch(
      /listing \d+ \(.+\) is Published\nbooking AB12 is Request\nbooking AB13 is/,
    );
    const client = new StayhookClient({ baseUrl: running.url, accessToken: "sandbox" });
    const { listingId } = await client.bookings.get("AB12");
    expect(await client.listings.list()).toMatchObject([{ listingId, status: "Published" }]);
  });

  test("duplicate, drop and advance are commands, too", async () => {
    const { url: to, received } = await receiver();
    const running = await sandbox(["--to", to, "--delay", "1h"]);
    for (const line of ["duplicate", "drop", "drop", "book X1", "advance 60"]) running.type(line);
    await until(() => expect(received()).toHaveLength(2));
    expect(running.stdout()).toContain("The sandbox will send each later notification twice.\n");
    running.type("deliver");
    await until(() => expect(running.stderr()).toContain("There is no command deliver."));
  });

  test("--drop loses notifications, and must be a rate", async () => {
    const { url: to, received } = await receiver();
    const running = await sandbox(["--to", to, "--drop", "1"]);
    running.type("book X1");
    await until(() => expect(running.stdout()).toContain("dropped on purpose"));
    expect(received()).toEqual([]);
  });

  test("--retry, --timeout and --delay change the deliveries", async () => {
    let asked = 0;
    const to = await serve((_request, response) => {
      asked += 1;
      if (asked === 2) return;
      response.writeHead(asked < 3 ? 500 : 200).end();
    });
    const running = await sandbox(["--retry", "1,20ms", "--timeout", "100ms", "--delay", "1-5ms"], {
      STAYHOOK_TARGET: to,
    });
    running.type("book X1");
    await until(() => expect(running.stdout()).toMatch(/attempt 3\) to \S+: 200 in \d+ ms$/m));
    expect(running.stdout()).toMatch(/ to \S+: 500 in \d+ ms\n/);
    expect(running.stdout()).toMatch(/attempt 2\) to \S+: no answer within 0\.1 s in \d+ ms\n/);
  });

  test("redeliver sends the last notification, or one by its id", async () => {
    const { url: to, received } = await receiver();
    const running = await sandbox(["--to", to]);
    running.type("redeliver");
    await until(() => expect(running.stderr()).toContain("has not delivered any notification yet."));
    running.type("book X1");
    await until(() => expect(received()).toHaveLength(1));
    running.type("book X2");
    await until(() => expect(received()).toHaveLength(2));
    const [first = "", second = ""] = received();
    running.type("redeliver");
    await until(() => expect(received().slice(2)).toEqual([second]));
    running.type(`redeliver ${JSON.parse(first).eventId}`);
    await until(() => expect(received().slice(3)).toEqual([first]));
    running.type("redeliver 00000000-0000-4000-8000-000000000000");
    await until(() => expect(running.stderr()).toContain("00000000-0000-4000-8000-000000000000"));
  });

  test("prints the error of a typed command, and goes on", async () => {
    const running = await sandbox();
    for (const line of ["", "  ", "constructor", "approve NONE", "publish x", "send {}", "help", "book X1"])
      running.type(line);
    await until(() => expect(running.stdout()).toContain("booking X1 is Confirmed"));
    const { stderr } = running;
    expect(stderr()).toContain("There is no command constructor. To list the commands, type: help");
    expect(stderr()).toContain("NONE");
    expect(stderr()).toContain("no active webhook configuration has a URL");
    expect(stderr()).toMatch(/^ {2}request \[code\] +a guest requests/m);
  });

  test("ends by quit or Ctrl-C, but not at the end of stdin", async () => {
    const quitting = await sandbox();
    quitting.type("quit");
    expect(await quitting.ended).toMatchObject({ code: 0 });
    await expect(fetch(quitting.url)).rejects.toThrow();

    const running = await sandbox();
    running.endInput();
    expect((await fetch(`${running.url}/v2/listings`)).status).toBe(401);
    running.interrupt();
    expect(await running.ended).toMatchObject({ code: 0 });
  });

  test("prints a line of JSON for each event with --json", async () => {
    const { url: to } = await receiver();
    const running = await sandbox(["--json", "--duplicates", "1", "--delay", "7ms-7"], {
      STAYHOOK_TARGET: `${to}?key=s3cret`,
    });
    running.type("request AB12");
    const kinds = () =>
      running
        .stdout()
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).kind as string);
    await until(() => expect(kinds().filter((kind) => kind === "delivery")).toHaveLength(2));
    expect(running.stdout().match(/"delay":7,/g)).toHaveLength(2);
    expect(kinds()[0]).toBe("listening");
    expect(new Set(kinds())).toEqual(new Set(["listening", "request", "record", "delivery"]));
    expect(running.stdout()).not.toContain("s3cret");
    running.type("nonsense");
    running.type("publish 1");
    await until(() => expect(running.stderr().trim().split("\n")).toHaveLength(2));
    for (const line of running.stderr().trim().split("\n"))
      expect(JSON.parse(line)).toEqual({ error: { message: expect.any(String) } });
  });

  test("--demo begins with a few listings and bookings of each status, and sends nothing", async () => {
    const { url: to, received } = await receiver();
    const running = await sandbox(["--demo", "--to", to]);
    const client = new StayhookClient({ baseUrl: running.url, accessToken: "sandbox" });
    const listings = await client.listings.list();
    expect(new Set(listings.map(({ status }) => status))).toEqual(
      new Set(["Published", "InReview", "Hidden"]),
    );
    running.type("list");
    for (const status of ["Request", "Confirmed", "Declined", "Cancelled"])
      await until(() => expect(running.stdout()).toMatch(new RegExp(`^booking \\w+ is ${status}$`, "m")));
    expect(received()).toEqual([]);
  });

  describe("--state", () => {
    const begin = async (file: string, ...args: string[]) => {
      const running = start(["sandbox", "--port", "0", "--state", file, ...args]);
      await until(() => expect(running.stdout()).toContain("The sandbox listens"));
      const [baseUrl = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(running.stdout()) ?? [];
      return { ...running, client: new StayhookClient({ baseUrl, accessToken: "sandbox" }) };
    };

    test("keeps bookings, listings and the webhook configuration over a restart", async () => {
      const file = join(directory(), "sandbox.json");
      const { url: to, received } = await receiver();
      const first = await begin(file, "--to", to, "--demo");
      first.type("request AB12");
      first.type("alter AB12 checkIn=2030-07-01 checkOut=2030-07-04 guest=Ann");
      first.type("submit Old Mill");
      await until(() => expect(first.stdout()).toContain("(Old Mill) is InReview"));
      const [, id = ""] = /listing (\d+) \(Old Mill\)/.exec(first.stdout()) ?? [];
      first.type(`publish ${id}`);
      await until(() => expect(received()).toHaveLength(3));
      // The file is written after each change, so that even a killed sandbox loses nothing.
      expect(readFileSync(file, "utf8")).toContain("AB12");
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const config = await first.client.webhookConfig.get();
      const listings = await first.client.listings.list();
      first.interrupt();
      await first.ended;

      const second = await begin(file, "--demo");
      expect(await second.client.webhookConfig.get()).toEqual(config);
      expect(await second.client.listings.list()).toEqual(listings);
      const booking = { status: "Request", checkIn: "2030-07-01", checkOut: "2030-07-04", guest: "Ann" };
      expect(await second.client.bookings.get("AB12")).toMatchObject(booking);
      second.type(`hide ${id}`);
      second.type(`publish ${id}`);
      second.type("approve AB12");
      await until(() => expect(received()).toHaveLength(4));
      // A listing that was published before sends no notification, and no event id comes again.
      const sent = received().map((body) => JSON.parse(body));
      expect(sent.at(-1)).toMatchObject({ bookingCode: "AB12" });
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
    for (let time = 0; time < 2; time += 1) {
      const running = await sandbox();
      running.type("request");
      codes.push(
        await until(() => {
          const [, code] = /booking (\S+) is Request/.exec(running.stdout()) ?? [];
          expect(code).toBeDefined();
          return code;
        }),
      );
    }
    expect(codes[0]).toBe(codes[1]);
  });
});
