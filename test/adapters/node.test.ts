import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { toFastifyPlugin } from "../../src/adapters/fastify.ts";
import { toKoaMiddleware } from "../../src/adapters/koa.ts";
import { toLambdaHandler } from "../../src/adapters/lambda.ts";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { sharedSecret } from "../../src/webhooks/receiving/verify.ts";
import { bookingNotification, EVENT_ID } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send, serve } from "./served.ts";

const text = JSON.stringify(bookingNotification);

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

async function open(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  sockets.push(socket);
  socket.setEncoding("utf8");
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
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
  it("starts processing when it is made, unless told not to", () => {
    const started = receivingOnly();
    toNodeHandler(started.webhooks);
    expect(started.starts()).toBe(1);
  });

  it("records what is posted, with the topic it was told", async () => {
    const { webhooks, added } = receivingOnly();
    const { port } = await serve(toNodeHandler(webhooks, { topic: "bookings" }));
    const answer = await send(port, text);
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body)).toEqual({ received: true });
    expect(added).toMatchObject([{ eventId: EVENT_ID, topic: "bookings", notification: text }]);
  });

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
    const { webhooks, added } = receivingOnly();
    const { port } = await serve(toNodeHandler(webhooks));
    const answer = await new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, method: "POST" }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.on("error", reject);
      sent.write(text.slice(0, 10));
      setTimeout(() => sent.end(text.slice(10)), 20);
    });
    expect(answer).toBe(200);
    expect(added).toHaveLength(1);
  });

  it("keeps the connection through good and bad requests", async () => {
    const { webhooks } = receivingOnly({ verify: sharedSecret({ query: "key", secret: "s" }) });
    const { port } = await serve(toNodeHandler(webhooks));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number | undefined>();
    let kept = 0;
    agent.on("free", (socket: Socket) => {
      kept++;
      ports.add(socket.localPort);
    });
    try {
      const path = "/hooks?key=s";
      const statuses = [
        await send(port, text, { agent, path }),
        await send(port, "not JSON", { agent, path }),
        await send(port, undefined, { agent, path, method: "GET" }),
        await send(port, undefined, { agent, path: "/hooks", headers: { "content-length": "0" } }),
        await send(port, text, { agent, path }),
      ].map(({ status }) => status);
      expect(statuses).toEqual([200, 400, 405, 401, 200]);
      expect([kept, ports.size]).toEqual([5, 1]);
    } finally {
      agent.destroy();
    }
  });

  it("keeps a connection in HTTP/1.0 too, which has no chunks", async () => {
    const { webhooks } = receivingOnly();
    const { port } = await serve(toNodeHandler(webhooks));
    const socket = await open(port);
    const head = `POST / HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: ${text.length}\r\n\r\n`;
    socket.write(head + text + head + text);
    const answers = await heard(socket, (all) => all.split('{"received":true}').length === 3);
    expect(answers.match(/content-length: 17/gi)).toHaveLength(2);
    expect(answers).not.toMatch(/transfer-encoding/i);
  });

  it.each(["GET", "HEAD"])("answers %s with 405 and Allow", async (method) => {
    const { webhooks } = receivingOnly();
    const { port } = await serve(toNodeHandler(webhooks));
    const answer = await send(port, undefined, { method });
    expect(answer.status).toBe(405);
    expect(answer.headers.allow).toBe("POST");
    expect(answer.body === "").toBe(method === "HEAD");
  });

  it("answers 500 without detail should receive reject, and calls no next", async () => {
    const { webhooks } = receivingOnly();
    webhooks.receive = () => Promise.reject(new Error("private detail"));
    const next = vi.fn();
    const handler = toNodeHandler(webhooks);
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
    const answer = await send(port, text);
    expect([answer.status, answer.body]).toEqual([504, "gateway"]);
    await vi.waitFor(() => expect(added).toHaveLength(1));
  });
});

describe("a client that leaves", () => {
  it("half-way through its body leaves nothing behind", async () => {
    const { webhooks, added, seen } = receivingOnly();
    const { port } = await serve(toNodeHandler(webhooks));
    const socket = await open(port);
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text.slice(0, 20)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.destroy();
    await vi.waitFor(() => expect(seen).toMatchObject([{ kind: "refused", reason: "aborted" }]));
    expect(added).toEqual([]);
    expect((await send(port, text)).status).toBe(200);
  });

  it("before it is answered does no harm", async () => {
    let record: (added: "added") => void = () => {};
    const { webhooks, seen } = receivingOnly({ add: () => new Promise((resolve) => (record = resolve)) });
    const receive = vi.spyOn(webhooks, "receive");
    const { port } = await serve(toNodeHandler(webhooks));
    const socket = await open(port);
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
    await vi.waitFor(() => expect(receive).toHaveBeenCalled());
    socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 20));
    record("added");
    await vi.waitFor(() => expect(seen).toMatchObject([{ kind: "received" }]));
  });
});

describe("an answer to a body that nobody reads", () => {
  const large = new Uint8Array(10_000_000).fill(32);

  it.each<[string, number, Record<string, string>, Parameters<typeof receivingOnly>[0]]>([
    ["413, its length known", 413, { "content-length": String(large.length) }, {}],
    ["413, its length unknown", 413, { "transfer-encoding": "chunked" }, {}],
    ["401", 401, {}, { verify: () => false }],
    ["503", 503, {}, { verify: (): Promise<boolean> => new Promise(() => {}), replyWithin: 50 }],
  ])("reaches a client that sends 10 MB: %s", async (_, status, headers, options) => {
    const { webhooks, added } = receivingOnly(options);
    const { port } = await serve(toNodeHandler(webhooks));
    for (let round = 0; round < 5; round++) {
      const answer = await send(port, large, { headers });
      expect(answer.status).toBe(status);
      expect(answer.headers.connection).toBe("close");
      expect(JSON.parse(answer.body)).toMatchObject({ status });
    }
    expect(added).toEqual([]);
  });

  it("reaches fetch", async () => {
    const { webhooks } = receivingOnly();
    const { url } = await serve(toNodeHandler(webhooks));
    const answer = await fetch(url, { method: "POST", body: large });
    expect(answer.status).toBe(413);
    expect(await answer.json()).toMatchObject({ status: 413 });
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
    const socket = await open(port);
    const answer = heard(socket);
    socket.write("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    const chunk = `10000\r\n${" ".repeat(65_536)}\r\n`;
    for (let count = 0; count < 320; count++) socket.write(chunk);
    expect(await answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(taken()).toBeLessThan(1_000_000);
  });

  it("ends the connection, also of a client that neither sends on nor leaves", async () => {
    const { webhooks } = receivingOnly({ verify: () => false });
    const { port } = await serve(toNodeHandler(webhooks));
    const socket = await open(port);
    socket.write("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{");
    const start = performance.now();
    const answer = await heard(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 401 [\s\S]*connection: close[\s\S]*"status":401/i);
    expect(performance.now() - start).toBeLessThan(5_000);
  });

  it.each([
    ["413", {}],
    ["401", { verify: () => false }],
  ])("reaches a client that sends first and listens later: %s", async (status, options) => {
    const { webhooks } = receivingOnly(options);
    const { port } = await serve(toNodeHandler(webhooks));
    const socket = await open(port);
    socket.pause();
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${large.length}\r\n\r\n`);
    socket.write(large);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await heard(socket, (all) => all.includes('"status"'))).toContain(`HTTP/1.1 ${status} `);
  });

  it("ends as soon as the body does, should something else read it", async () => {
    const { webhooks } = receivingOnly({ verify: () => false });
    const handler = toNodeHandler(webhooks);
    const { port } = await serve((req, res) => {
      handler(req, res);
      setTimeout(() => req.resume(), 20);
    });
    const socket = await open(port);
    socket.write("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n{");
    setTimeout(() => socket.write("}\n"), 50);
    const start = performance.now();
    expect(await heard(socket)).toContain("HTTP/1.1 401 ");
    expect(performance.now() - start).toBeLessThan(900);
  });

  it("is 408 where the body stalls", async () => {
    const { webhooks, added } = receivingOnly({ replyWithin: 50 });
    const { port } = await serve(toNodeHandler(webhooks));
    const socket = await open(port);
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text.slice(0, 20)}`);
    const answer = await heard(socket, (all) => all.includes('"status"'));
    expect(answer).toMatch(/^HTTP\/1\.1 408 [\s\S]*connection: close/i);
    expect(added).toEqual([]);
  });
});

describe("a body that something in front has read", () => {
  /** Starts a server that reads the body first and then calls the handler. */
  const behind = async (prepare: (bytes: Buffer) => object, options = {}) => {
    const side = receivingOnly({ replyWithin: 1_000, ...options });
    const handler = toNodeHandler(side.webhooks);
    const { port } = await serve(async (req, res) => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      Object.assign(req, prepare(Buffer.concat(chunks)));
      handler(req, res);
    });
    return { ...side, answer: await send(port, text) };
  };

  it("is taken from rawBody, as Firebase has it, and can be verified", async () => {
    const verify = async ({ rawBody }: { rawBody: () => Promise<Uint8Array> }): Promise<boolean> =>
      new TextDecoder().decode(await rawBody()) === text;
    const { answer, added } = await behind((rawBody) => ({ rawBody, body: { parsed: true } }), { verify });
    expect(answer.status).toBe(200);
    expect(added[0]?.notification).toBe(text);
  });

  it.each<[string, (bytes: Buffer) => unknown]>([
    ["an object", (bytes) => JSON.parse(bytes.toString())],
    ["bytes", (bytes) => bytes],
    ["a string", (bytes) => bytes.toString()],
  ])("is taken from body, as %s", async (_, make) => {
    const { answer, added } = await behind((bytes) => ({ body: make(bytes) }));
    expect(answer.status).toBe(200);
    expect(added).toHaveLength(1);
  });

  it.each([
    [null, 400],
    ["", 400],
    [{}, 400],
    [undefined, 500],
  ])("is answered at once where nothing is left of it: %j", async (body, status) => {
    const { answer, added } = await behind(() => ({ body }));
    expect(answer.status).toBe(status);
    expect(added).toEqual([]);
  });

  it("is logged with what to do where nothing was made of it", async () => {
    const { log } = await behind(() => ({}));
    expect(log).toMatchObject([
      { level: "error", message: expect.stringContaining("Mount the webhook handler before") },
    ]);
  });
});

describe("what is no webhook handler", () => {
  it.each([undefined, null, "handler", {}, { fetch() {} }])(
    "is refused when the adapter is made: %j",
    (wrong) => {
      expect(() => toNodeHandler(wrong as never)).toThrow(
        /webhooks: must be a handler from createWebhookHandler/,
      );
    },
  );
});

describe("a misspelled option", () => {
  it.each([toNodeHandler, toFastifyPlugin, toKoaMiddleware, toLambdaHandler])("is refused: %o", (make) => {
    const { webhooks } = receivingOnly();
    expect(() => make(webhooks, { topics: "bookings" } as never)).toThrow(/did you mean `topic`\?/);
    make(webhooks, { topic: "bookings" });
    make(webhooks, undefined);
  });
});

it("takes any object that receives", () => {
  const { webhooks } = receivingOnly();
  toNodeHandler({ receive: webhooks.receive });
});
