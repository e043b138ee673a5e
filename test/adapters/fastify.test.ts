import { once } from "node:events";
import { connect } from "node:net";
import { Readable } from "node:stream";
import fastify, { type FastifyInstance } from "fastify";
import { toFastifyPlugin } from "stayhook/fastify";
import { afterEach, describe, expect, test } from "vitest";
import { bookingNotification } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send } from "./served.ts";

const text = JSON.stringify(bookingNotification);
const apps: FastifyInstance[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

/** Serves a handler that only receives at /hooks. */
async function listen(
  options: Parameters<typeof receivingOnly>[0] = {},
  setUp: (app: FastifyInstance) => unknown = () => {},
) {
  const side = receivingOnly(options);
  const app = fastify({ forceCloseConnections: true });
  apps.push(app);
  setUp(app);
  await app.register(toFastifyPlugin(side.webhooks), { prefix: "/hooks" });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  return { ...side, app, port: Number(new URL(url).port) };
}

describe("the Fastify plugin", () => {
  test("leaves the app's own parsers and routes as they are", async () => {
    const { port } = await listen({}, (app) => app.post("/own", (request) => ({ got: request.body })));
    const own = (type: string) => ({ path: "/own", headers: { "content-type": type } });
    expect((await send(port, '{"a":1}', own("application/json"))).body).toBe('{"got":{"a":1}}');
    expect((await send(port, "a", own("text/odd"))).status).toBe(415);
  });

  test("shows verify the content type and the path below its prefix", async () => {
    const seen: unknown[] = [];
    const { port } = await listen({
      verify: ({ url, headers }) => seen.push([url, headers.get("content-type")]) > 0,
    });
    await send(port, text, { path: "/hooks/secret?a=1", headers: { "content-type": "text/odd" } });
    expect(seen).toEqual([["/hooks/secret?a=1", "text/odd"]]);
  });

  test("reads the stream that a hook in front has put in place of Node's", async () => {
    const { port, added } = await listen({}, (app) => {
      app.addHook("preParsing", async (_request, _reply, payload) => {
        const chunks: Buffer[] = [];
        for await (const chunk of payload) chunks.push(chunk as Buffer);
        return Readable.from([Buffer.concat(chunks)], { objectMode: false });
      });
    });
    expect((await send(port, text, { headers: { "content-type": "application/json" } })).status).toBe(200);
    expect(added.length).toBe(1);
  });

  test("takes a request on an open connection while the app closes, with return503OnClosing: false", async () => {
    const { webhooks, added } = receivingOnly();
    const app = fastify({ return503OnClosing: false });
    apps.push(app);
    await app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const socket = connect(Number(new URL(url).port), "127.0.0.1").setEncoding("utf8");
    await once(socket, "connect");
    socket.write(`POST /hooks HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const closed = app.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.write(`\r\n${text}`);
    const [answer] = await once(socket, "data");
    expect([String(answer).split("\r\n")[0], added.length]).toEqual(["HTTP/1.1 200 OK", 1]);
    socket.destroy();
    await closed;
  });

  test("takes requests by inject, without a socket, as tests do", async () => {
    const { app, added } = await listen();
    const answer = await app.inject({ method: "POST", url: "/hooks", payload: bookingNotification });
    expect([answer.statusCode, added.length]).toEqual([200, 1]);
  });
});
