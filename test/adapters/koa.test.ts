import { bodyParser } from "@koa/bodyparser";
import Koa from "koa";
import { sharedSecret } from "stayhook";
import { toKoaMiddleware } from "stayhook/koa";
import { describe, expect, test } from "vitest";
import { bookingNotification } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send, serve } from "./served.ts";

const text = JSON.stringify(bookingNotification);

const parsers: Record<string, Koa.Middleware[]> = {
  "no parser": [],
  "a body parser": [bodyParser()],
  "a body parser of everything": [bodyParser({ enableTypes: ["json", "form", "text"] })],
};

describe.each(Object.entries(parsers))("Koa behind %s", (_, middleware) => {
  function appOf(options: Parameters<typeof receivingOnly>[0] = {}) {
    const side = receivingOnly(options);
    const app = new Koa();
    app.silent = true;
    for (const one of middleware) app.use(one);
    app.use(toKoaMiddleware(side.webhooks, { topic: "bookings" }));
    return { ...side, listener: app.callback() };
  }

  test.each(["application/json", "text/plain", "application/cloudevents+json", undefined])(
    "records a notification sent as %s",
    async (type) => {
      const { listener, added } = appOf();
      const { port } = await serve(listener);
      const headers = type === undefined ? {} : { "content-type": type };
      expect(await send(port, text, { headers })).toMatchObject({ status: 200, body: '{"received":true}' });
      expect(JSON.parse(added[0]?.notification ?? "")).toEqual(bookingNotification);
      expect(added[0]?.topic).toBe("bookings");
    },
  );

  test("gives the handler's own answers: 405, 400, 401", async () => {
    const { listener, added } = appOf({ verify: sharedSecret({ query: "key", secret: "geheim" }) });
    const { port } = await serve(listener);
    const path = "/hooks?key=geheim";
    expect(await send(port, undefined, { method: "GET", path })).toMatchObject({ status: 405 });
    expect((await send(port, undefined, { path })).status).toBe(400);
    expect((await send(port, text, { path: "/hooks?key=falsch" })).status).toBe(401);
    expect(added).toEqual([]);
  });
});

describe("Koa", () => {
  test("answers 413 without reading on", async () => {
    const { webhooks } = receivingOnly({ maxBodyBytes: 1000 });
    const { port } = await serve(new Koa().use(toKoaMiddleware(webhooks)).callback());
    expect(await send(port, "x".repeat(5_000_000))).toMatchObject({
      status: 413,
      headers: { connection: "close" },
    });
  });

  test("shows verify the URL that was asked for, wherever it is mounted", async () => {
    const { webhooks } = receivingOnly({ verify: sharedSecret({ pathSegment: "last", secret: "geheim" }) });
    const app = new Koa().use((context, next) => {
      context.url = "/rewritten";
      return next();
    });
    const { port } = await serve(app.use(toKoaMiddleware(webhooks)).callback());
    expect((await send(port, text, { path: "/hooks/geheim" })).status).toBe(200);
  });

  test("starts the processing when the middleware is made, unless the handler is not to", () => {
    const started = receivingOnly();
    toKoaMiddleware(started.webhooks);
    expect(started.starts()).toBe(1);
  });
});
