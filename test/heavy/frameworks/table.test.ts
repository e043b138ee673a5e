import "reflect-metadata";
import { once } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { connect } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { bodyParser } from "@koa/bodyparser";
import { All, Controller, Module, Req, Res } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import connectApp from "connect";
import express5 from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { cloneRawRequest } from "hono/request";
import Koa from "koa";
import { memoryStore, sharedSecret, type WebhookHandler } from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { toKoaMiddleware } from "stayhook/koa";
import { toNodeHandler } from "stayhook/node";
import { describe, expect, onTestFinished, test } from "vitest";
import { send, serve } from "../../adapters/served.ts";
import { handlerOf, notificationOf } from "../../webhooks/support.ts";

const express4: typeof express5 = (await import("express4" as string)).default;

/** Makes an app that serves the handler at /hooks, with or without the framework's body parser in front of it. */
type MakeApp = (webhooks: WebhookHandler, parses: boolean) => RequestListener | Promise<RequestListener>;

const expressApp =
  (express: typeof express5): MakeApp =>
  (webhooks, parses) => {
    const app = express();
    if (parses) app.use(express.json());
    app.all("/hooks", toNodeHandler(webhooks));
    return app;
  };

const apps: Record<string, MakeApp> = {
  "Express 5": expressApp(express5),
  "Express 4": expressApp(express4),
  Connect: (webhooks, parses) => {
    const app = connectApp();
    if (parses) app.use(express5.json());
    app.use("/hooks", toNodeHandler(webhooks));
    return app;
  },
  Fastify: async (webhooks, parses) => {
    const app = fastify();
    onTestFinished(() => app.close());
    if (parses) {
      app.addContentTypeParser(
        "application/json",
        { parseAs: "string" },
        async (_: unknown, body: string) => body,
      );
    }
    app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
    await app.ready();
    return (request, response) => app.routing(request, response);
  },
  Koa: (webhooks, parses) => {
    const app = new Koa();
    app.silent = true;
    if (parses) app.use(bodyParser());
    app.use(toKoaMiddleware(webhooks));
    return app.callback();
  },
  Hono: (webhooks, parses) => {
    const app = new Hono();
    if (parses) {
      app.use(async (c, next) => {
        await c.req.json().catch(() => undefined);
        await next();
      });
    }
    app.all("/hooks", async (c) => webhooks.fetch(parses ? await cloneRawRequest(c.req) : c.req.raw));
    return getRequestListener(app.fetch);
  },
  NestJS: async (webhooks, parses) => {
    const handle = toNodeHandler(webhooks);
    class Hooks {
      take(request: IncomingMessage, response: ServerResponse): void {
        handle(request, response);
      }
    }
    // Call decorators as functions: Node strips types, but does not compile decorators.
    Controller("hooks")(Hooks);
    All()(Hooks.prototype, "take", Object.getOwnPropertyDescriptor(Hooks.prototype, "take") ?? {});
    Req()(Hooks.prototype, "take", 0);
    Res()(Hooks.prototype, "take", 1);
    class App {}
    Module({ controllers: [Hooks] })(App);
    const app = await NestFactory.create(App, { logger: false, bodyParser: parses });
    onTestFinished(() => app.close());
    await app.init();
    return app.getHttpAdapter().getInstance();
  },
};

const path = "/hooks?key=geheim";
const json = { "content-type": "application/json" };
const text = (fields = {}) => JSON.stringify(notificationOf(fields));

async function serveApp(name: string, parses: boolean, options: Parameters<typeof handlerOf>[0] = {}) {
  const side = handlerOf({
    verify: sharedSecret({ query: "key", secret: "geheim" }),
    autoStart: false,
    ...options,
  });
  onTestFinished(() => side.webhooks.close());
  return { ...side, ...(await serve(await (apps[name] as MakeApp)(side.webhooks, parses))) };
}

const matrix = Object.keys(apps).flatMap((name) => [
  { name, parses: false, how: "without a parser" },
  { name, parses: true, how: "behind its body parser" },
]);

describe.each(matrix)("$name, $how", ({ name, parses }) => {
  const served = (options: Parameters<typeof handlerOf>[0] = {}) => serveApp(name, parses, options);

  test("200 to a notification, and to its duplicate", async () => {
    const { port, store, kinds } = await served();
    const notification = notificationOf({ further: "Zürich ⛱" });
    for (const _ of [1, 2]) {
      const answer = await send(port, JSON.stringify(notification), { path, headers: json });
      expect(answer).toMatchObject({ status: 200, body: '{"received":true}' });
    }
    expect(kinds()).toEqual(["received", "duplicate"]);
    const stored = await store.get(notification.eventId);
    expect(JSON.parse(stored?.notification ?? "")).toEqual(notification);
  });

  test("400, 401, 405 and 413", async () => {
    const { port, store } = await served();
    const malformed = await send(port, text({ eventId: "12" }), { path, headers: json });
    expect(malformed).toMatchObject({
      status: 400,
      headers: { "content-type": "application/problem+json" },
      body: expect.stringContaining("eventId"),
    });
    expect((await send(port, text(), { path: "/hooks?key=falsch", headers: json })).status).toBe(401);
    expect(await send(port, undefined, { path, method: "GET" })).toMatchObject({
      status: 405,
      headers: { allow: "POST" },
    });
    // The body parsers accept this size, so only the handler's own limit rejects it.
    const large = text({ padding: "x".repeat(70_000) });
    expect((await send(port, large, { path, headers: json })).status).toBe(413);
    expect(Object.values(await store.counts()).every((count) => count === 0)).toBe(true);
  });

  test("200 to every content type, and 400 to every body that is no notification", async () => {
    const { port, store } = await served();
    const types = [
      "application/json",
      "text/plain",
      "application/octet-stream",
      "application/cloudevents+json",
    ];
    for (const type of [...types, "nonsense", undefined]) {
      const notification = notificationOf();
      const headers = type === undefined ? {} : { "content-type": type };
      expect((await send(port, JSON.stringify(notification), { path, headers })).status, type).toBe(200);
      const stored = await store.get(notification.eventId);
      expect(JSON.parse(stored?.notification ?? "")).toEqual(notification);
    }
    for (const body of [undefined, "{}", "{", "null", "12", '"text"'])
      expect((await send(port, body, { path, headers: json })).status, body).toBe(400);
  });

  test("503 where the store cannot record it, and when it is closed", async () => {
    const store = memoryStore();
    store.add = () => Promise.reject(new Error("disk full"));
    const failing = await served({ store });
    const closing = await served();
    await closing.store.close();
    for (const { port } of [failing, closing]) {
      const answer = await send(port, text(), { path, headers: json });
      expect(answer).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
      expect(answer.body).not.toContain("disk");
    }
  });
});

// These apps have no body parser in front, because a body parser would apply its own limit first.
describe.each(Object.keys(apps))("%s reads no body by itself", (name) => {
  test("413 to what is far too large, while it is sent", async () => {
    const { port } = await serveApp(name, false);
    const huge = await send(port, "x".repeat(10_000_000), { path, headers: json });
    expect(huge).toMatchObject({ status: 413, body: expect.stringContaining('"status":413') });
  });

  test("408 to a body that stalls", async () => {
    const { port } = await serveApp(name, false, { replyWithin: 1_000 });
    const socket = connect(port, "127.0.0.1").setEncoding("utf8");
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{`);
    const [answer] = await once(socket, "data");
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });
});

test("Hono: a body that was read in front is not there any more, and the log says what to do", async () => {
  const { webhooks, logger } = handlerOf({ autoStart: false });
  const app = new Hono();
  app.post("/hooks", async (c) => {
    await c.req.json();
    return webhooks.fetch(c.req.raw);
  });
  const { port } = await serve(getRequestListener(app.fetch));
  const answer = await send(port, JSON.stringify(notificationOf()), { path: "/hooks", headers: json });
  expect(answer.status).toBe(500);
  expect(logger.lines.join()).toContain(
    "Mount the webhook handler before that middleware, or pass the unparsed body to the handler",
  );
});
