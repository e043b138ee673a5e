import { describe, expect, test } from "vitest";
import { masked } from "../../src/cli/commands/config.ts";
import { cli, platform, serve } from "./support.ts";

const url = "https://example.com/hooks?key=s3cret";
const other = "https://example.com/other?key=0ther";

async function account() {
  const { sandbox, env } = await platform();
  const configWith = (args: readonly string[], more: Record<string, string> = {}, input?: string) =>
    cli(["config", ...args], { env: { ...env, ...more }, input });
  return { sandbox, configWith, config: (...args: string[]) => configWith(args) };
}

describe("config", () => {
  test("get prints the configuration with masked secrets, or ends with 4 if there is none", async () => {
    const { config } = await account();
    const none = await config("get");
    expect(none).toMatchObject({ code: 4, stdout: "" });
    expect(none.stderr).toContain("stayhook config ensure");
    await config("set", "--bookings", url);
    const shown = "https://example.com/hooks?key=***";
    expect(await config("get")).toMatchObject({ code: 0, stdout: `isActive\ttrue\nbookings\t${shown}\n` });
    const json = async (...args: string[]) => JSON.parse((await config("get", "--json", ...args)).stdout);
    expect(await json()).toEqual({ isActive: true, endpoints: { bookings: shown } });
    expect(await json("--show-secrets")).toEqual({ isActive: true, endpoints: { bookings: url } });
  });

  test("set creates or replaces the whole configuration", async () => {
    const { sandbox, config } = await account();
    expect(await config("set", "--bookings", url, "--listings", url)).toMatchObject({ code: 0 });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints: { bookings: url, listings: url } });
    await config("set", "--listings", other, "--inactive");
    expect(sandbox.webhookConfig).toEqual({ isActive: false, endpoints: { listings: other } });
    expect(await config("set")).toMatchObject({ code: 2 });
  });

  test("set replaces a configuration that another machine created meanwhile", async () => {
    const { sandbox, config } = await account();
    await config("set", "--bookings", other);
    sandbox.faults.set([{ status: 404, route: "GET /v2/webhooks/config", times: 1 }]);
    expect(await config("set", "--bookings", url)).toMatchObject({ code: 0 });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints: { bookings: url } });
  });

  test("set refuses a URL that is not https, and names the topic but not the URL", async () => {
    const { sandbox, config } = await account();
    const { code, stderr } = await config("set", "--bookings", "http://example.com/?key=s3cret");
    expect(code).toBe(2);
    expect(stderr).toContain("endpoints.bookings");
    expect(stderr).not.toContain("s3cret");
    expect(sandbox.webhookConfig).toBeUndefined();
  });

  test("ensure writes only if something differs; an empty URL removes a topic", async () => {
    const { sandbox, config } = await account();
    const action = async (...args: string[]) =>
      JSON.parse((await config("ensure", ...args, "--json")).stdout);
    expect(await action("--bookings", url)).toMatchObject({ action: "created" });
    expect(await action("--bookings", url)).toMatchObject({ action: "unchanged" });
    expect(await action("--listings", url)).toMatchObject({ action: "updated" });
    expect(await action("--bookings=")).toMatchObject({ action: "updated" });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints: { listings: url } });
    expect(await action("--listings", url, "--inactive")).toMatchObject({ action: "updated" });
    expect(sandbox.webhookConfig).toEqual({ isActive: false, endpoints: { listings: url } });
  });

  test("on and off switch delivery", async () => {
    const { sandbox, config } = await account();
    expect(await config("on")).toMatchObject({ code: 4 });
    await config("set", "--bookings", url);
    expect((await config("off", "--yes")).stdout).toContain("isActive\tfalse");
    expect(sandbox.webhookConfig?.isActive).toBe(false);
    expect((await config("on")).stdout).toContain("isActive\ttrue");
    expect(sandbox.webhookConfig?.isActive).toBe(true);
  });

  test("on prints the configuration even if the platform answers with an empty body", async () => {
    const baseUrl = await serve(({ method }, response) => {
      if (method === "PATCH") return response.writeHead(204).end();
      response.setHeader("content-type", "application/json");
      return response.end(JSON.stringify({ isActive: true, endpoints: { bookings: url } }));
    });
    const env = { STAYHOOK_ACCESS_TOKEN: "t" };
    expect(await cli(["config", "on", "--base-url", baseUrl], { env })).toEqual({
      code: 0,
      stdout: `isActive\ttrue\nbookings\thttps://example.com/hooks?key=***\n`,
      stderr: "",
    });
  });

  test("delete deletes the configuration, or ends with 4 if there is none", async () => {
    const { sandbox, config } = await account();
    expect(await config("delete", "--yes")).toMatchObject({ code: 4 });
    await config("set", "--bookings", url);
    expect(await config("delete", "--yes", "--json")).toMatchObject({
      code: 0,
      stdout: '{\n  "deleted": true\n}\n',
    });
    expect(sandbox.webhookConfig).toBeUndefined();
  });
});

describe("endpoints", () => {
  test("come from the environment", async () => {
    const { sandbox, configWith } = await account();
    const ended = await configWith(["ensure"], {
      STAYHOOK_ENDPOINT_BOOKINGS: url,
      STAYHOOK_ENDPOINT_MESSAGES: other,
    });
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).not.toMatch(/s3cret|0ther/);
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url, messages: other });
    // An empty variable counts as unset. It removes no topic.
    const unset = { STAYHOOK_ENDPOINT_BOOKINGS: "", STAYHOOK_ENDPOINT: "" };
    await configWith(["ensure"], { ...unset, STAYHOOK_ENDPOINT_LISTINGS: url });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url, listings: url, messages: other });
    expect((await configWith(["ensure"], unset)).stderr).toContain("at least one of --bookings");
    expect(await configWith(["set"], { STAYHOOK_ENDPOINT_LISTINGS: url })).toMatchObject({
      code: 0,
      stderr: "",
    });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ listings: url });
  });

  test("come from stdin, one line for each option or one line for all", async () => {
    const { sandbox, configWith } = await account();
    const two = ["set", "--listings", "-", "--bookings", "-"];
    expect(await configWith(two, {}, `${url}\n${other}\n`)).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url, listings: other });
    expect(await configWith(two, {}, other)).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: other, listings: other });
    expect(await configWith(["set", "--bookings", "-"], {}, "\n")).toMatchObject({ code: 2 });
  });

  test("options override the environment, and a query in an endpoint causes a warning", async () => {
    const { sandbox, configWith } = await account();
    const { code, stderr } = await configWith(["set", "--bookings", url], {
      STAYHOOK_ENDPOINT_LISTINGS: other,
    });
    expect(code).toBe(0);
    expect(stderr).toContain(
      "can read the query of the URL in --bookings. Give the URL on stdin (--bookings -) or in STAYHOOK_ENDPOINT_BOOKINGS",
    );
    expect(stderr).not.toContain("s3cret");
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url });
    expect(await configWith(["set", "--bookings", "https://example.com/hooks"])).toMatchObject({
      stderr: "",
    });
  });

  test("are one URL for all topics with --to or STAYHOOK_ENDPOINT", async () => {
    const { sandbox, configWith } = await account();
    const all = (base: string) =>
      Object.fromEntries(
        ["bookings", "listings", "messages"].map((topic) => [topic, `${base}&topic=${topic}`]),
      );
    expect(await configWith(["ensure", "--to", "-"], {}, `${url}\n`)).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual(all(url));
    expect(await configWith(["ensure"], { STAYHOOK_ENDPOINT: other })).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual(all(other));
    // Endpoints of topics win over STAYHOOK_ENDPOINT.
    await configWith(["ensure"], { STAYHOOK_ENDPOINT: other, STAYHOOK_ENDPOINT_BOOKINGS: url });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ ...all(other), bookings: url });
    expect(await configWith(["ensure", "--to", "-"], {}, "")).toMatchObject({ code: 2 });
  });
});

test.each([
  ["https://example.com/hooks?key=s3cret&topic=bookings", "https://example.com/hooks?key=***&topic=bookings"],
  ["https://example.com/hooks?topic=s3cret", "https://example.com/hooks?topic=***"],
  ["https://me:s3cret@example.com:8443/", "https://me:***@example.com:8443/"],
  ["https://example.com/hooks/0123456789abcdef", "https://example.com/hooks/***"],
  ["https://example.com/hooks#s3cret", "https://example.com/hooks"],
  ["https://example.com/hooks", "https://example.com/hooks"],
])("%s is masked as %s", (given, shown) => {
  expect(masked(given)).toBe(shown);
});

test("config off and config delete ask on a terminal", async () => {
  const { sandbox, env } = await platform();
  await cli(["config", "set", "--bookings", "https://example.com"], { env });
  for (const [args, input, code] of [
    [["off"], "n\n", 1],
    [["delete"], "yess\n", 1],
    [["off"], "yes\n", 0],
    [["delete"], " Y \n", 0],
  ] as const) {
    const { code: ended, stderr } = await cli(["config", ...args], { env, typing: true, input });
    expect(ended, args.join()).toBe(code);
    expect(stderr).toMatch(/\? \[y\/N\] /);
    if (code === 1) expect(sandbox.webhookConfig?.isActive).toBe(true);
  }
  expect(sandbox.webhookConfig).toBeUndefined();
});
