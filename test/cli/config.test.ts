import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { cli, platform } from "./support.ts";

const url = "https://example.com/hooks?key=s3cret";
const other = "https://example.com/other";

async function account() {
  const { sandbox, env } = await platform();
  return { sandbox, config: (...args: string[]) => cli(["config", ...args], { env }) };
}

describe("config", () => {
  test("get: 4 where there is none, else its fields", async () => {
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

  test("set makes one, and replaces one whole", async () => {
    const { sandbox, config } = await account();
    expect(await config("set", "--bookings", url, "--listings", url)).toMatchObject({ code: 0 });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints: { bookings: url, listings: url } });
    await config("set", "--listings", other, "--inactive");
    expect(sandbox.webhookConfig).toEqual({ isActive: false, endpoints: { listings: other } });
    expect(await config("set")).toMatchObject({ code: 2 });
  });

  test("set replaces one that somebody else has made in between", async () => {
    const { sandbox, config } = await account();
    await config("set", "--bookings", other);
    sandbox.faults.set([{ status: 404, route: "GET /v2/webhooks/config", times: 1 }]);
    expect(await config("set", "--bookings", url)).toMatchObject({ code: 0 });
    expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints: { bookings: url } });
  });

  test("set refuses an URL that the platform would not deliver to, and names the topic, not the URL", async () => {
    const { sandbox, config } = await account();
    const { code, stderr } = await config("set", "--bookings", "http://example.com/?key=s3cret");
    expect(code).toBe(2);
    expect(stderr).toContain("endpoints.bookings");
    expect(stderr).not.toContain("s3cret");
    expect(sandbox.webhookConfig).toBeUndefined();
  });

  test("ensure writes only what differs; an empty URL removes a topic", async () => {
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

  test("on and off", async () => {
    const { sandbox, config } = await account();
    expect(await config("on")).toMatchObject({ code: 4 });
    await config("set", "--bookings", url);
    expect((await config("off", "--yes")).stdout).toContain("isActive\tfalse");
    expect(sandbox.webhookConfig?.isActive).toBe(false);
    expect((await config("on")).stdout).toContain("isActive\ttrue");
    expect(sandbox.webhookConfig?.isActive).toBe(true);
  });

  test("on shows what holds then, where the platform answers it with nothing", async () => {
    const server = createServer(({ method }, response) => {
      if (method === "PATCH") return response.writeHead(204).end();
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ isActive: true, endpoints: { bookings: other } }));
      return undefined;
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const env = { STAYHOOK_ACCESS_TOKEN: "t" };
    expect(await cli(["config", "on", "--base-url", baseUrl], { env })).toEqual({
      code: 0,
      stdout: `isActive\ttrue\nbookings\t${other}\n`,
      stderr: "",
    });
  });

  test("delete", async () => {
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
