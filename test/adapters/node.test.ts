import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent, type RequestListener } from "node:http";
import { connect, type Socket } from "node:net";
import { PassThrough, Readable } from "node:stream";
import fastify from "fastify";
import Koa from "koa";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Webhooks } from "../../src/adapters/exchange.ts";
import { toFastifyPlugin } from "../../src/adapters/fastify.ts";
import { toKoaMiddleware } from "../../src/adapters/koa.ts";
import { toLambdaHandler } from "../../src/adapters/lambda.ts";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { StayhookClient } from "../../src/client/client.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { createWebhookHandler } from "../../src/webhooks/handler.ts";
import { sharedSecret } from "../../src/webhooks/receiving/verify.ts";
import { eventually } from "../support/eventually.ts";
import { bookingNotification, EVENT_ID } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send, serve, stopLinger } from "./served.ts";

const text = JSON.stringify(bookingNotification);

/** Opens a connection, and sends the head of a request with the beginning of a body. */
async function open(
  port: number,
  headers: string,
  body: string | Uint8Array = "",
  version = "1.1",
): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(`POST / HTTP/${version}\r\nhost: x\r\n${headers}\r\n\r\n`);
  socket.write(body);
  return socket;
}
const length = (bytes: number) => `content-length: ${bytes}`;

/** Serves a handler that only receives. */
async function served(options: Parameters<typeof receivingOnly>[0] = {}) {
  const side = receivingOnly(options);
  return { ...side, ...(await serve(toNodeHandler(side.webhooks))) };
}

/** Returns the text that arrives until `done` returns true or the connection closes. */
function heard(socket: Socket, done: (text: string) => boolean = () => false): Promise<string> {
  return new Promise((resolve) => {
    let all = "";
    socket.on("data", (chunk) => {
      all += chunk;
      if (done(all)) resolve(all);
    });
    socket.on("close", () => resolve(all));
    socket.resume();
  });
}

describe("toNodeHandler", () => {
  it("hands on method, URL and headers", async () => {
    const { webhooks } = receivingOnly();
    const receive = vi.spyOn(webhooks, "receive");
    const { port } = await serve(toNodeHandler(webhooks));
    await send(port, text, { path: "/hooks?key=a%2Bb", method: "PUT", headers: { "X-One": "1" } });
    expect(receive.mock.calls[0]?.[0]).toMatchObject({
      method: "PUT",
      url: "/hooks?key=a%2Bb",
      headers: { "x-one": "1" },
      topic: undefined,
    });
  });

  it("takes a body in pieces, of unknown length", async () => {
    const { port, added } = await served();
    const socket = await open(port, "transfer-encoding: chunked", `a\r\n${text.slice(0, 10)}\r\n`);
    setTimeout(
      () => socket.write(`${(text.length - 10).toString(16)}\r\n${text.slice(10)}\r\n0\r\n\r\n`),
      20,
    );
    expect(await heard(socket, (all) => all.includes("received"))).toMatch(/^HTTP\/1\.1 200 /);
    expect(added).toMatchObject([{ eventId: EVENT_ID, notification: text }]);
  });

  it("keeps the connection through good and bad requests", async () => {
    const { port } = await served({ verify: sharedSecret({ query: "key", secret: "s" }) });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const ports: unknown[] = [];
    agent.on("free", (socket: Socket) => ports.push(socket.localPort));
    const path = "/hooks?key=s";
    const statuses = [
      await send(port, text, { agent, path }),
      await send(port, "not JSON", { agent, path }),
      await send(port, undefined, { agent, path, method: "GET" }),
      await send(port, undefined, { agent, path: "/hooks", headers: { "content-length": "0" } }),
      await send(port, text, { agent, path }),
    ].map(({ status }) => status);
    expect(statuses).toEqual([200, 400, 405, 401, 200]);
    expect([ports.length, new Set(ports).size]).toEqual([5, 1]);
  });

  it("keeps a connection in HTTP/1.0 too, which has no chunks", async () => {
    const { port } = await served();
    const again = `POST / HTTP/1.0\r\nconnection: keep-alive\r\n${length(text.length)}\r\n\r\n`;
    const headers = `connection: keep-alive\r\n${length(text.length)}`;
    const socket = await open(port, headers, text + again + text, "1.0");
    const answers = await heard(socket, (all) => all.split('{"received":true}').length === 3);
    expect(answers.match(/content-length: 17/gi)).toHaveLength(2);
    expect(answers).not.toMatch(/transfer-encoding/i);
  });

  it("answers HEAD without a body", async () => {
    const { port } = await served();
    expect(await send(port, undefined, { method: "HEAD" })).toMatchObject({
      ...{ status: 405, headers: { allow: "POST" }, body: "" },
    });
  });

  it("answers 500 without detail should receive reject, and calls no next", async () => {
    const next = vi.fn();
    const handler = toNodeHandler({ receive: () => Promise.reject(new Error("private detail")) });
    const { port } = await serve((req, res) => handler(req, res, next));
    const answer = await send(port, text);
    expect(answer.status).toBe(500);
    expect(answer.body).not.toContain("private");
    expect(next).not.toHaveBeenCalled();
  });

  it("leaves a request alone that was answered meanwhile", async () => {
    const { webhooks, added } = receivingOnly();
    const handler = toNodeHandler(webhooks);
    const { port } = await serve((req, res) => {
      handler(req, res);
      res.writeHead(504).end("gateway");
    });
    expect(await send(port, text)).toMatchObject({ status: 504, body: "gateway" });
    await eventually(() => expect(added).toHaveLength(1));
  });
});

it("requests whose bodies end in one turn of the event loop share a statement of the store", async () => {
  const store = memoryStore();
  const client = new StayhookClient({ baseUrl: "http://127.0.0.1:1", accessToken: "token" });
  const webhooks = createWebhookHandler({ client, store, verify: false, autoStart: false, on: {} });
  const statements = vi.spyOn(store as unknown as { doAdd(all: unknown[]): Promise<unknown> }, "doAdd");
  const bodies = Array.from({ length: 5 }, () => new PassThrough());
  const answers = bodies.map((body) => webhooks.receive({ method: "POST", url: "/", headers: {}, body }));
  for (const body of bodies) {
    const notification = { ...bookingNotification, eventId: randomUUID() };
    setTimeout(() => body.end(JSON.stringify(notification)), 1);
  }
  // All timers are due now, so that they run in one turn. Node runs microtasks between them, as between two sockets.
  for (const until = performance.now() + 3; performance.now() < until; );
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(statements.mock.calls.map(([additions]) => additions.length)).toEqual([5]);
});

describe("a client that leaves", () => {
  it("half-way through its body leaves nothing behind", async () => {
    const { port, added, seen } = await served();
    const socket = await open(port, length(text.length), text.slice(0, 20));
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.destroy();
    await eventually(() => expect(seen).toMatchObject([{ kind: "refused", reason: "aborted" }]));
    expect(added).toEqual([]);
    expect((await send(port, text)).status).toBe(200);
  });

  it("before it is answered does no harm", async () => {
    let record: ((added: "added") => void) | undefined;
    const { port, seen } = await served({ add: () => new Promise((resolve) => (record = resolve)) });
    const socket = await open(port, length(text.length), text);
    await eventually(() => expect(record).toBeDefined());
    socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 20));
    record?.("added");
    await eventually(() => expect(seen).toMatchObject([{ kind: "received" }]));
  });
});

describe("an answer to a body that nobody reads", () => {
  const large = new Uint8Array(10_000_000).fill(32);
  const refusing = { verify: () => false };

  it.each<[string, number, Record<string, string>, Parameters<typeof receivingOnly>[0]]>([
    ["413, its length known", 413, { "content-length": String(large.length) }, {}],
    ["413, its length unknown", 413, { "transfer-encoding": "chunked" }, {}],
    ["401", 401, {}, refusing],
    ["503", 503, {}, { verify: (): Promise<boolean> => new Promise(() => {}), replyWithin: 50 }],
  ])("reaches a client that sends 10 MB: %s", async (_, status, headers, options) => {
    const { port, url, added } = await served(options);
    for (let round = 0; round < 3; round++) {
      const answer = await send(port, large, { headers });
      expect(answer).toMatchObject({ status, headers: { connection: "close" } });
      expect(JSON.parse(answer.body)).toMatchObject({ status });
    }
    if (status === 413) expect((await fetch(url, { method: "POST", body: large })).status).toBe(413);
    expect(added).toEqual([]);
  });

  it("comes before the body has ended, and little of that is taken in", async () => {
    const { webhooks } = receivingOnly();
    let taken = (): number => 0;
    const handler = toNodeHandler(webhooks);
    const { port } = await serve((req, res) => {
      const { socket } = req;
      taken = () => socket.bytesRead;
      handler(req, res);
    });
    const socket = await open(port, "transfer-encoding: chunked");
    const answer = heard(socket);
    const chunk = `10000\r\n${" ".repeat(65_536)}\r\n`;
    for (let count = 0; count < 320; count++) socket.write(chunk);
    expect(await answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(taken()).toBeLessThan(1_000_000);
  });

  it("ends the connection, also of a client that neither sends on nor leaves", async () => {
    const { port } = await served(refusing);
    const answer = await heard(await open(port, length(500), "{"));
    expect(answer).toMatch(/^HTTP\/1\.1 401 [\s\S]*connection: close[\s\S]*"status":401/i);
  });

  it.each([
    ["413", {}],
    ["401", refusing],
  ])("reaches a client that sends first and listens later: %s", async (status, options) => {
    const { port } = await served(options);
    const socket = await open(port, length(large.length), large);
    socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await heard(socket, (all) => all.includes('"status"'))).toContain(`HTTP/1.1 ${status} `);
  });

  it("ends as soon as the body does, should something else read it", async () => {
    stopLinger();
    const { webhooks } = receivingOnly(refusing);
    const handler = toNodeHandler(webhooks);
    const { port } = await serve((req, res) => {
      handler(req, res);
      setTimeout(() => req.resume(), 20);
    });
    const socket = await open(port, length(3), "{");
    setTimeout(() => socket.write("}\n"), 50);
    expect(await heard(socket)).toContain("HTTP/1.1 401 ");
  });
});

describe("a body that something in front has read", () => {
  type Verify = Parameters<typeof receivingOnly>[0] & object;
  const readsText: Verify["verify"] = async ({ rawBody }) =>
    new TextDecoder().decode(await rawBody()) === text;

  it.each<[string, number, (bytes: Buffer) => object, Verify["verify"]?]>([
    [
      "is taken from rawBody, as Firebase has it",
      200,
      (rawBody) => ({ rawBody, body: { parsed: true } }),
      readsText,
    ],
    ["is taken from body as an object", 200, (bytes) => ({ body: JSON.parse(bytes.toString()) })],
    ["is taken from body as bytes", 200, (body) => ({ body })],
    ["is taken from body as a string", 200, (bytes) => ({ body: bytes.toString() })],
    ["is taken from rawBody as text", 200, (bytes) => ({ rawBody: bytes.toString() }), readsText],
    [
      "is taken from rawBody as text, beside an empty body",
      200,
      (bytes) => ({ rawBody: bytes.toString(), body: {} }),
      readsText,
    ],
    ["is taken from body, beside an empty rawBody", 200, (body) => ({ rawBody: "", body }), readsText],
    ["is taken from body, beside no bytes", 200, (body) => ({ rawBody: Buffer.alloc(0), body }), readsText],
    ["is taken from rawBody as an object", 200, (bytes) => ({ rawBody: JSON.parse(bytes.toString()) })],
    ["is taken from body, beside a rawBody that is a function", 200, (body) => ({ rawBody() {}, body })],
    ["is taken from an unread stream", 200, (bytes) => ({ body: Readable.from([bytes]) }), readsText],
    ["is taken from a Buffer that became JSON", 200, (bytes) => ({ body: bytes.toJSON() }), readsText],
    ["is taken from a Blob", 200, (bytes) => ({ body: new Blob([new Uint8Array(bytes)]) }), readsText],
    ["is logged with what to do where null is left of it", 500, () => ({ body: null })],
    ["is logged with what to do where no text is left of it", 500, () => ({ body: "" })],
    ["is logged with what to do where {} is left of it", 500, () => ({ body: {} })],
    ["is logged with what to do where nothing was made of it", 500, () => ({})],
  ])("%s", async (_, status, prepare, verify) => {
    const { webhooks, added, log } = receivingOnly({ replyWithin: 1_000, verify });
    const handler = toNodeHandler(webhooks);
    const { port } = await serve(async (req, res) => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      handler(Object.assign(req, prepare(Buffer.concat(chunks))), res);
    });
    expect((await send(port, text)).status).toBe(status);
    expect(added.map(({ notification }) => notification)).toEqual(status === 200 ? [text] : []);
    const advice = expect.stringContaining("Mount the webhook handler before");
    if (status === 500) expect(log).toMatchObject([{ level: "error", message: advice }]);
  });
});

it("an empty object that a client has sent and a body parser has read names the missing field", async () => {
  const { webhooks } = receivingOnly();
  const handler = toNodeHandler(webhooks);
  const { port } = await serve(async (req, res) => {
    for await (const _ of req);
    handler(Object.assign(req, { body: {} }), res);
  });
  const response = await send(port, "{}");
  expect(response.status).toBe(400);
  expect(JSON.parse(response.body)).toMatchObject({ errors: [{ path: ["eventId"] }] });
});

type Make = (
  webhooks: ReturnType<typeof receivingOnly>["webhooks"] | Parameters<typeof toNodeHandler>[0],
  options?: { topic?: string },
) => unknown;
describe.each<Make>([toNodeHandler, toFastifyPlugin, toKoaMiddleware, toLambdaHandler as Make])(
  "%o",
  (make) => {
    it("refuses a handler that is none, and a misspelled option or topic", () => {
      for (const wrong of [undefined, null, "handler", {}, { fetch() {} }])
        expect(() => make(wrong as never)).toThrow(/webhooks: must be a handler from createWebhookHandler/);
      const { webhooks } = receivingOnly();
      expect(() => make(webhooks, { topics: "bookings" } as never)).toThrow(/did you mean `topic`\?/);
      expect(() => make(webhooks, { topic: "booking" })).toThrow(
        "topic: must be one of bookings, listings, messages",
      );
      make({ receive: webhooks.receive });
    });

    it("starts processing when it is made, where a process goes on", () => {
      const { webhooks, starts } = receivingOnly();
      make(webhooks, { topic: "bookings" });
      expect(starts()).toBe(make === toLambdaHandler ? 0 : 1);
    });
  },
);

it.each<[string, (webhooks: Webhooks) => RequestListener | Promise<RequestListener>]>([
  ["Node", (webhooks) => toNodeHandler(webhooks, { topic: "bookings" })],
  ["Koa", (webhooks) => new Koa().use(toKoaMiddleware(webhooks, { topic: "bookings" })).callback()],
  [
    "Fastify",
    async (webhooks) => {
      const app = fastify().register(toFastifyPlugin(webhooks, { topic: "bookings" }));
      await app.ready();
      return (request, response) => app.routing(request, response);
    },
  ],
])("%s tells the topic of its endpoint", async (_, make) => {
  const { webhooks, added } = receivingOnly();
  const { port } = await serve(await make(webhooks));
  expect((await send(port, text)).status).toBe(200);
  expect(added).toMatchObject([{ topic: "bookings", notification: text }]);
});
