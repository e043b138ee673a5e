import { request } from "node:http";
import { networkInterfaces } from "node:os";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { createSandbox } from "../../src/testing/index.ts";
import { startSandbox } from "./setup.ts";

/** Requests the listings with any headers. Uses node:http, because fetch cannot set the `host` header. */
function ask(url: string, headers: Record<string, string>) {
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const all = { authorization: "Bearer sandbox-token", ...headers };
    request(`${url}/v2/listings`, { headers: all }, async (response) =>
      resolve({ status: response.statusCode, body: await text(response) }),
    )
      .on("error", reject)
      .end();
  });
}

const foreignHost = { status: 421, body: expect.stringContaining("127.0.0.1 or localhost") };
const foreignOrigin = { status: 403, body: expect.stringContaining("another origin") };

it.each([
  ...["rebound.example:4010", "127.0.0.1.rebound.example", "localhost@rebound.example", "10.0.0.1"].map(
    (host) => [{ host }, foreignHost] as const,
  ),
  ...["https://rebound.example", "http://localhost:1", "null", "file://"].map(
    (origin) => [{ origin }, foreignOrigin] as const,
  ),
])("the sandbox on loopback refuses %j, and says how to call it", async (headers, expected) => {
  const sandbox = await startSandbox();
  expect(await ask(sandbox.url, headers)).toEqual(expected);
  expect(sandbox.requests).toEqual([]);
});

it("takes each name of loopback as host, and its own origin", async () => {
  const sandbox = await startSandbox();
  for (const host of ["127.0.0.1", "localhost:4010", "LOCALHOST", "[::1]:80", "127.8.8.8:1"])
    expect((await ask(sandbox.url, { host })).status, host).toBe(200);
  expect((await ask(sandbox.url, { origin: sandbox.url })).status).toBe(200);
});

it.each(["0.0.0.0", "::", "192.0.2.1", "sandbox.example"])(
  "the sandbox needs an access token of its own to listen on %s",
  async (host) => {
    for (const options of [{}, { accessToken: "sandbox-token" }]) {
      const sandbox = createSandbox(options);
      onTestFinished(() => sandbox.close());
      const listening = sandbox.listen({ host });
      await expect(listening).rejects.toBeInstanceOf(InvalidArgumentError);
      await expect(listening).rejects.toThrow(/^accessToken: .*STAYHOOK_ACCESS_TOKEN/);
      expect((await sandbox.listen()).url).toContain("127.0.0.1");
    }
  },
);

it("takes any host beyond loopback, by its token alone", async () => {
  const sandbox = createSandbox({ accessToken: "tok" });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen({ host: "0.0.0.0" });
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const { address } = own.find(({ family, internal }) => family === "IPv4" && !internal) ?? {};
  const reached = url.replace("127.0.0.1", address ?? "127.0.0.1");
  const host = "sandbox.example:4010";
  expect((await ask(reached, { host })).status).toBe(401);
  expect((await ask(reached, { host, authorization: "Bearer tok" })).status).toBe(200);
  expect((await ask(reached, { host, origin: "https://else.example" })).status).toBe(403);
});
