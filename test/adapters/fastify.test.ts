import fastify, { type FastifyInstance } from "fastify";
import { sharedSecret } from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { afterEach, describe, expect, test } from "vitest";
import { bookingNotification } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send } from "./served.ts";

const text = JSON.stringify(bookingNotification);
const apps: FastifyInstance[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

async function listen(setUp: (app: FastifyInstance) => unknown) {
  const app = fastify({ forceCloseConnections: true });
  apps.push(app);
  await setUp(app);
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  return { app, port: Number(new URL(url).port) };
}

describe("the Fastify plugin", () => {
  test.each(["application/json", "text/plain", "application/cloudevents+json", "nonsense", undefined])(
    "records a notification sent as %s",
    async (type) => {
      const { webhooks, added } = receivingOnly();
      const { port } = await listen((app) => app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }));
      const headers = type === undefined ? {} : { "content-type": type };
      expect(await send(port, text, { headers })).toMatchObject({ status: 200, body: '{"received":true}' });
      expect(added[0]?.notification).toBe(text);
    },
  );

  test("leaves the app's own parsers and routes as they are", async () => {
    const { webhooks } = receivingOnly();
    const { port } = await listen((app) => {
      app.post("/own", (request) => ({ got: request.body }));
      return app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
    });
    const own = { path: "/own", headers: { "content-type": "application/json" } };
    expect((await send(port, '{"a":1}', own)).body).toBe('{"got":{"a":1}}');
    expect((await send(port, "a", { path: "/own", headers: { "content-type": "text/odd" } })).status).toBe(
      415,
    );
  });

  test("gives the handler's own answers: 405, 400, 401, 413", async () => {
    const { webhooks, added } = receivingOnly({
      maxBodyBytes: 1000,
      verify: sharedSecret({ query: "key", secret: "geheim" }),
    });
    const { port } = await listen((app) => app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }));
    const path = "/hooks?key=geheim";
    for (const method of ["GET", "PUT", "DELETE"]) {
      expect(await send(port, undefined, { method, path })).toMatchObject({
        status: 405,
        headers: { allow: "POST" },
      });
    }
    expect((await send(port, "{", { path })).status).toBe(400);
    expect((await send(port, undefined, { path })).status).toBe(400);
    expect((await send(port, text, { path: "/hooks?key=falsch" })).status).toBe(401);
    const large = await send(port, "x".repeat(5_000_000), { path });
    expect(large).toMatchObject({ status: 413, headers: { connection: "close" } });
    expect(added).toEqual([]);
    expect((await send(port, text, { path })).status).toBe(200);
  });

  test("shows verify the content type that came", async () => {
    const seen: (string | null)[] = [];
    const { webhooks } = receivingOnly({
      verify: ({ headers }) => seen.push(headers.get("content-type")) > 0,
    });
    const { port } = await listen((app) => app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }));
    await send(port, text, { headers: { "content-type": "text/odd" } });
    expect(seen).toEqual(["text/odd"]);
  });

  test("takes a secret in the path below its prefix", async () => {
    const { webhooks } = receivingOnly({ verify: sharedSecret({ pathSegment: "last", secret: "geheim" }) });
    const { port } = await listen((app) => app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }));
    expect((await send(port, text, { path: "/hooks/geheim" })).status).toBe(200);
    expect((await send(port, text, { path: "/hooks/falsch" })).status).toBe(401);
  });

  test("reads the stream that a hook in front has put in place of Node's", async () => {
    const { webhooks, added } = receivingOnly();
    const { Readable } = await import("node:stream");
    const { port } = await listen((app) => {
      app.addHook("preParsing", async (_request, _reply, payload) => {
        const chunks: Buffer[] = [];
        for await (const chunk of payload) chunks.push(chunk as Buffer);
        return Readable.from([Buffer.concat(chunks)], { objectMode: false });
      });
      return app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
    });
    expect((await send(port, text, { headers: { "content-type": "application/json" } })).status).toBe(200);
    expect(added.length).toBe(1);
  });

  test("by inject, without a socket, as tests do", async () => {
    const { webhooks, added } = receivingOnly();
    const { app } = await listen((made) => made.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }));
    expect(
      (await app.inject({ method: "POST", url: "/hooks", payload: bookingNotification })).statusCode,
    ).toBe(200);
    expect(added.length).toBe(1);
  });

  test("starts the processing when it is made, unless the handler is not to", () => {
    const started = receivingOnly();
    toFastifyPlugin(started.webhooks);
    expect(started.starts()).toBe(1);
  });

  test("tells the topic of its endpoint", async () => {
    const { webhooks, added } = receivingOnly();
    const { port } = await listen((app) =>
      app.register(toFastifyPlugin(webhooks, { topic: "bookings" }), { prefix: "/hooks" }),
    );
    await send(port, text);
    expect(added[0]?.topic).toBe("bookings");
  });
});
