import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { Agent, MockAgent, ProxyAgent } from "undici";
import { expect, onTestFinished, test, vi } from "vitest";
import { undiciFetch } from "../../src/client/undici-fetch.ts";
import { connectProxy } from "../support/connect-proxy.ts";
import { serve } from "../support/serve.ts";
import { clientOf, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "Confirmed" };
const text = JSON.stringify(booking);
const bytes = Buffer.from(text);

/** Makes a client on `undiciFetch` with connections of its own, and counts the open ones of the server. */
async function connected(url: string, options: Parameters<typeof clientOf>[1] = {}) {
  const dispatcher = new Agent();
  onTestFinished(() => dispatcher.destroy());
  return clientOf({ url, requests: [] }, { maxRetries: 0, fetch: undiciFetch({ dispatcher }), ...options });
}

const encodings: readonly (readonly [string, Buffer])[] = [
  ["gzip", gzipSync(bytes)],
  ["X-GZIP", gzipSync(bytes)],
  ["deflate", deflateSync(bytes)],
  ["deflate", deflateRawSync(bytes)],
  ["br", brotliCompressSync(bytes)],
  ["zstd", zstdCompressSync(bytes)],
  ["deflate, gzip", gzipSync(deflateSync(bytes))],
  ["identity", bytes],
];

test.each(encodings)("decodes a body in %s, also one that comes in pieces", async (encoding, body) => {
  const url = await serve((_, response) => {
    response.writeHead(200, { "content-encoding": encoding });
    response.write(body.subarray(0, 5));
    setTimeout(() => response.end(body.subarray(5)), 10);
  });
  expect(await (await connected(url)).bookings.get("A")).toEqual(booking);
});

test("asks for the encodings that it decodes, unless the caller asks for others", async () => {
  const served = await platform([{ json: booking }]);
  const client = await connected(served.url);
  await client.bookings.get("A");
  await client.bookings.get("A", { headers: { "accept-encoding": "identity" } });
  const asked = served.requests.map(({ headers }) => headers["accept-encoding"]);
  expect(asked).toEqual(["gzip, deflate", "identity"]);
});

test("what fetch and undiciFetch give for one answer is the same", async () => {
  const url = await serve((request, response) => {
    if (request.url === "/redirect") return void response.writeHead(302, { location: "/other" }).end();
    if (request.url === "/none") return void response.writeHead(204).end();
    if (request.url === "/odd") return void response.writeHead(999, { "x-name": "caf\u00e9" }).end("odd");
    response.setHeader("set-cookie", ["a=1", "b=2"]);
    response.end(`${request.method} ${request.headers["x-one"]}`);
  });
  const facts = async (send: typeof fetch, path: string, init: RequestInit) => {
    const { status, ok, headers, body, ...response } = await send(`${url}${path}`, init).then(
      async (given) => ({
        ...{
          status: given.status,
          ok: given.ok,
          url: given.url,
          body: given.body === null ? null : "a body",
        },
        ...{ headers: [...given.headers].filter(([name]) => !/^(date|connection|keep-alive)$/.test(name)) },
        text: await given.text(),
      }),
    );
    return { status, ok, headers, body, ...response };
  };
  const send = undiciFetch() as typeof fetch;
  const redirect = "manual" as const;
  for (const [path, init] of [
    ["/", {}],
    ["/", { method: "HEAD" }],
    ["/", { method: "POST", body: "{}", headers: { "x-one": "1" } }],
    ["/redirect", {}],
    ["/none", {}],
    ["/odd", {}],
  ] as const)
    expect(await facts(send, path, { ...init, redirect }), path).toEqual(
      await facts(fetch, path, { ...init, redirect }),
    );
});

interface Cut {
  readonly error: string;
  readonly timeout?: number;
  readonly aborts?: boolean;
}

test.each<readonly [string, Cut]>([
  ["an abort while the body comes", { aborts: true, error: "AbortError" }],
  ["the time limit", { timeout: 500, error: "ConnectionTimeoutError" }],
])("%s ends the call and the connection", async (_, { error, aborts = false, ...options }) => {
  const closed = Promise.withResolvers<void>();
  const controller = new AbortController();
  const url = await serve((_, response) => {
    response.socket?.on("close", closed.resolve);
    response.writeHead(200).write('{"bookingCode":');
    // Not before the request is there, however busy the machine is.
    if (aborts) setTimeout(() => controller.abort(), 50);
  });
  const client = await connected(url);
  const call = client.bookings.get("A", { ...options, signal: controller.signal });
  expect(await rejection(call)).toMatchObject({ name: error });
  await closed.promise;
});

test("a body that is too long is read no further, and its connection closes", async () => {
  const closed = Promise.withResolvers<void>();
  let sent = 0;
  const url = await serve((_, response) => {
    response.socket?.on("close", closed.resolve);
    const more = (): void => {
      while (!response.destroyed && sent < 200e6) {
        sent += 1e6;
        if (!response.write("x".repeat(1e6))) return void response.once("drain", more);
      }
    };
    more();
  });
  const error = await rejection((await connected(url)).request("GET", "/v2/listings"));
  expect(error.message).toMatch(/longer than/);
  await closed.promise;
  expect(sent).toBeLessThan(100e6);
});

test("needs no more connections than fetch", async () => {
  const sockets = new Set<unknown>();
  const url = await serve((request, response) => {
    sockets.add(request.socket);
    response.writeHead(request.method === "DELETE" ? 204 : 200).end(request.method === "GET" ? text : "");
  });
  const count = async (client: ReturnType<typeof clientOf>) => {
    sockets.clear();
    for (const method of ["GET", "HEAD", "GET", "DELETE", "GET", "GET"] as const)
      await client.request(method, "/v2/bookings/A");
    return sockets.size;
  };
  const byFetch = await count(await connected(url, { fetch: undefined }));
  expect(await count(await connected(url))).toBe(byFetch);
});

test("goes through a proxy, and shows the token to the platform alone", async () => {
  const { url, requests } = await platform([{ json: booking }]);
  const proxy = await connectProxy();
  const dispatcher = new ProxyAgent({ uri: proxy.url, proxyTunnel: true });
  onTestFinished(() => dispatcher.close());
  const client = clientOf({ url, requests: [] }, { fetch: undiciFetch({ dispatcher }) });
  expect(await client.bookings.get("A")).toEqual(booking);
  expect(proxy.targets).toEqual([new URL(url).host]);
  expect(proxy.requests[0]?.method).toBe("CONNECT");
  expect(proxy.requests[0]?.headers.authorization).toBeUndefined();
  expect(requests[0]?.headers.authorization).toMatch(/^Bearer /);
});

test("a MockAgent answers", async () => {
  const dispatcher = new MockAgent();
  dispatcher.disableNetConnect();
  dispatcher.get("https://api.example").intercept({ path: "/v2/bookings/A" }).reply(200, booking);
  const client = clientOf(
    { url: "https://api.example", requests: [] },
    { fetch: undiciFetch({ dispatcher }) },
  );
  expect(await client.bookings.get("A")).toEqual(booking);
  expect(await rejection(client.bookings.get("B", { maxRetries: 0 }))).toMatchObject({
    name: "ConnectionError",
  });
});

test("refuses options and bodies that it cannot use", async () => {
  expect(() => undiciFetch({ dispatcher: "http://proxy:3128" as never })).toThrow(
    "dispatcher: must be a dispatcher of undici, such as `new ProxyAgent(url)`",
  );
  expect(() => undiciFetch({ proxy: "x" } as never)).toThrow("proxy");
  const send = undiciFetch();
  await expect(
    send("http://127.0.0.1:1", { method: "POST", body: new Uint8Array(1) as never }),
  ).rejects.toThrow("undiciFetch sends only a string");
});

test("a connection that ends while nobody reads the body ends no process", async () => {
  const url = await serve((_, response) => {
    response.writeHead(200).write("{");
    setTimeout(() => response.destroy(), 20);
  });
  const unhandled = vi.fn();
  process.on("uncaughtException", unhandled);
  onTestFinished(() => void process.off("uncaughtException", unhandled));
  const dispatcher = new Agent();
  onTestFinished(() => dispatcher.destroy());
  await undiciFetch({ dispatcher })(url, {});
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(unhandled).not.toHaveBeenCalled();
});
