import { describe, expect, test } from "vitest";
import { masked } from "../../src/cli/endpoints.ts";
import { cli, platform } from "./support.ts";

const url = "https://example.com/hooks?key=s3cret";
const other = "https://example.com/other?key=0ther";

async function account() {
  const { sandbox, env } = await platform();
  const config = (args: readonly string[], more: Record<string, string> = {}, input?: string) =>
    cli(["config", ...args], { env: { ...env, ...more }, input });
  return { sandbox, config };
}

describe("endpoints", () => {
  test("are read from the environment", async () => {
    const { sandbox, config } = await account();
    const ended = await config(["ensure"], {
      STAYHOOK_ENDPOINT_BOOKINGS: url,
      STAYHOOK_ENDPOINT_MESSAGES: other,
    });
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).not.toMatch(/s3cret|0ther/);
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url, messages: other });
    expect(await config(["set"], { STAYHOOK_ENDPOINT_LISTINGS: url })).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ listings: url });
  });

  test("are read from stdin, a line for each option or one for all", async () => {
    const { sandbox, config } = await account();
    const two = ["set", "--listings", "-", "--bookings", "-"];
    expect(await config(two, {}, `${url}\n${other}\n`)).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url, listings: other });
    expect(await config(two, {}, other)).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: other, listings: other });
    expect(await config(["set", "--bookings", "-"], {}, "\n")).toMatchObject({ code: 2 });
  });

  test("on the command line count alone, and are warned of where they have a query", async () => {
    const { sandbox, config } = await account();
    const { code, stderr } = await config(["set", "--bookings", url], { STAYHOOK_ENDPOINT_LISTINGS: other });
    expect(code).toBe(0);
    expect(stderr).toContain(
      "can read the query of --bookings. Use --bookings - or STAYHOOK_ENDPOINT_BOOKINGS",
    );
    expect(stderr).not.toContain("s3cret");
    expect(sandbox.webhookConfig?.endpoints).toEqual({ bookings: url });
    expect(await config(["set", "--bookings", "https://example.com/hooks"])).toMatchObject({ stderr: "" });
  });

  test("are one URL for all topics with --to, or STAYHOOK_TO", async () => {
    const { sandbox, config } = await account();
    const all = (base: string) =>
      Object.fromEntries(
        ["bookings", "listings", "messages"].map((topic) => [topic, `${base}&topic=${topic}`]),
      );
    expect(await config(["ensure", "--to", "-"], {}, `${url}\n`)).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual(all(url));
    expect(await config(["ensure"], { STAYHOOK_TO: other })).toMatchObject({ code: 0, stderr: "" });
    expect(sandbox.webhookConfig?.endpoints).toEqual(all(other));
    // Endpoints of topics go before.
    await config(["ensure"], { STAYHOOK_TO: other, STAYHOOK_ENDPOINT_BOOKINGS: url });
    expect(sandbox.webhookConfig?.endpoints).toEqual({ ...all(other), bookings: url });
    expect(await config(["ensure", "--to", "-"], {}, "")).toMatchObject({ code: 2 });
  });
});

test.each([
  ["https://example.com/hooks?key=s3cret&topic=bookings", "https://example.com/hooks?key=***&topic=bookings"],
  ["https://example.com/hooks?topic=s3cret", "https://example.com/hooks?topic=***"],
  ["https://me:s3cret@example.com:8443/", "https://me:***@example.com:8443/"],
  ["https://example.com/hooks/0123456789abcdef", "https://example.com/hooks/***"],
  ["https://example.com/hooks#s3cret", "https://example.com/hooks"],
  ["https://example.com/hooks", "https://example.com/hooks"],
])("%s is shown as %s", (given, shown) => {
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

test("Ctrl-C at the question ends with 130", async () => {
  const { env } = await platform();
  const { start } = await import("./support.ts");
  const running = start(["config", "off"], { env, typing: true });
  running.interrupt();
  running.endInput();
  expect(await running.ended).toMatchObject({ code: 130 });
});
