// Hosts that wait for the listener, replace its objects, or pass requests that never saw a socket.

import "reflect-metadata";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { HttpRequest } from "@azure/functions";
import awsLambdaFastify from "@fastify/aws-lambda";
import compress from "@fastify/compress";
import { All, Controller, Module, Req, Res } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import express from "express";
import fastify, { type FastifyInstance } from "fastify";
import * as h3First from "h3";
import { fromNodeHandler, H3, toNodeHandler as h3ToNode } from "h3-2";
import Koa from "koa";
import { koaBody } from "koa-body";
import { createMocks } from "node-mocks-http";
import { fetchNodeHandler } from "srvx/node";
import { memoryStore, sharedSecret, type WebhookHandler } from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { toKoaMiddleware } from "stayhook/koa";
import { toNodeHandler } from "stayhook/node";
import { createCall } from "unenv/runtime/fetch/index";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { send, serve, stopLinger } from "../../adapters/served.ts";
import { handlerOf, notificationOf } from "../../webhooks/support.ts";

const SECRET = "s3cret-of-the-hosts";
const JSON_TYPE = { "content-type": "application/json" };

/** Sends one POST, and resolves to the status of the answer. */
type Post = (path: string, body: string, headers: Record<string, string>) => Promise<number>;
/** Mounts the handler in a host. */
type Mount = (webhooks: WebhookHandler) => Promise<Post>;

const served =
  (listener: (webhooks: WebhookHandler) => RequestListener | Promise<RequestListener>): Mount =>
  async (webhooks) => {
    const { port } = await serve(await listener(webhooks));
    return async (path, body, headers) => (await send(port, body, { path, headers })).status;
  };

const fastifyApp = async (setUp: (app: FastifyInstance) => unknown): Promise<FastifyInstance> => {
  const app = fastify();
  onTestFinished(() => app.close());
  await setUp(app);
  await app.ready();
  return app;
};
const routed =
  (app: FastifyInstance): RequestListener =>
  (request, response) =>
    app.routing(request, response);

async function nestApp(webhooks: WebhookHandler, adapter: "fastify" | "express"): Promise<RequestListener> {
  const handle = toNodeHandler(webhooks);
  class Hooks {
    take(request: IncomingMessage, response: ServerResponse) {
      void handle(request, response);
    }
  }
  // Call decorators as functions: Node strips types, but does not compile decorators.
  Controller("hooks")(Hooks);
  All()(Hooks.prototype, "take", Object.getOwnPropertyDescriptor(Hooks.prototype, "take") ?? {});
  Req()(Hooks.prototype, "take", 0);
  Res()(Hooks.prototype, "take", 1);
  class App {}
  Module({ controllers: [Hooks] })(App);
  const app =
    adapter === "fastify"
      ? await NestFactory.create<NestFastifyApplication>(App, new FastifyAdapter(), { logger: false })
      : await NestFactory.create(App, { logger: false });
  onTestFinished(() => app.close());
  await app.init();
  const instance = app.getHttpAdapter().getInstance();
  if (adapter === "express") return instance;
  await instance.ready();
  return routed(instance);
}

const hosts: Record<string, Mount> = {
  "h3 2": served((webhooks) => h3ToNode(new H3().post("/hooks", fromNodeHandler(toNodeHandler(webhooks))))),
  "h3 1, as in Nuxt": served((webhooks) =>
    h3First.toNodeListener(
      h3First.createApp().use("/hooks", h3First.fromNodeMiddleware(toNodeHandler(webhooks))),
    ),
  ),
  "h3 2, event.req": served((webhooks) =>
    h3ToNode(new H3().post("/hooks", (event) => webhooks.fetch(event.req))),
  ),
  "h3 1, toWebRequest": served((webhooks) =>
    h3First.toNodeListener(
      h3First.createApp().use(
        "/hooks",
        h3First.eventHandler((event) => webhooks.fetch(h3First.toWebRequest(event))),
      ),
    ),
  ),
  "Azure's HttpRequest": async (webhooks) => {
    return async (path, body, headers) => {
      const request = new HttpRequest({
        method: "POST",
        url: `http://localhost${path}`,
        body: { string: body },
        headers,
      });
      const { method, url } = request;
      return (
        await webhooks.receive({
          method,
          url,
          headers: Object.fromEntries(request.headers),
          body: request.body,
        })
      ).status;
    };
  },
  "Next's pages API": served(async (webhooks) => {
    const { apiResolver } = await import("next/dist/server/api-utils/node/api-resolver.js" as string);
    const context = { previewModeId: "", previewModeEncryptionKey: "", previewModeSigningKey: "" };
    const page = { default: toNodeHandler(webhooks) };
    return (request, response) =>
      void apiResolver(request, response, {}, page, context, false, true, "/hooks");
  }),
  "unenv's createCall": async (webhooks) => {
    const call = createCall(toNodeHandler(webhooks) as never);
    return async (url, body, headers) => (await call({ url, method: "POST", headers, body } as never)).status;
  },
  "srvx's fetchNodeHandler": async (webhooks) => {
    const handler = toNodeHandler(webhooks);
    return async (path, body, headers) => {
      const request = new Request(`http://localhost${path}`, { method: "POST", body, headers });
      return (await fetchNodeHandler(handler as never, request as never)).status;
    };
  },
  "NestJS on Fastify": served((webhooks) => nestApp(webhooks, "fastify")),
  "NestJS on Express": served((webhooks) => nestApp(webhooks, "express")),
  "a Fastify route": served(async (webhooks) => {
    const take = toNodeHandler(webhooks);
    return routed(await fastifyApp((app) => app.all("/hooks", (request, reply) => take(request, reply))));
  }),
  "Koa's own request and response": served((webhooks) => {
    const take = toNodeHandler(webhooks);
    const app = new Koa();
    app.silent = true;
    return app.use((context) => take(context.request, context.response)).callback();
  }),
  "koa-body": served((webhooks) =>
    new Koa()
      .use(koaBody({ onError: () => {} }))
      .use(toKoaMiddleware(webhooks))
      .callback(),
  ),
  "koa-body that patches Node's request": served((webhooks) =>
    new Koa()
      .use(koaBody({ patchNode: true, patchKoa: false, onError: () => {} }))
      .use(toKoaMiddleware(webhooks))
      .callback(),
  ),
  "a Fastify hook that pauses": served(async (webhooks) =>
    routed(
      await fastifyApp((app) => {
        app.addHook("onRequest", async ({ raw }) => void raw.pause());
        app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
      }),
    ),
  ),
  "Fastify with @fastify/compress": served(async (webhooks) =>
    routed(
      await fastifyApp(async (app) => {
        await app.register(compress, { global: true });
        app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
      }),
    ),
  ),
  "Fastify's inject": async (webhooks) => {
    const app = await fastifyApp((each) => each.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }));
    return async (url, payload, headers) =>
      (await app.inject({ method: "POST", url, payload, headers })).statusCode;
  },
  "@fastify/aws-lambda": async (webhooks) => {
    type Lambda = (event: object, context: object) => Promise<{ readonly statusCode: number }>;
    let lambda: Lambda | undefined;
    await fastifyApp((app) => {
      lambda = awsLambdaFastify(app) as unknown as Lambda;
      app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
    });
    return async (path, body, headers) => {
      const { pathname, searchParams } = new URL(path, "http://localhost");
      const event = {
        httpMethod: "POST",
        path: pathname,
        queryStringParameters: Object.fromEntries(searchParams),
        headers,
        body,
      };
      return (await lambda?.(event, {}))?.statusCode ?? 0;
    };
  },
  "node-mocks-http": async (webhooks) => {
    const take = toNodeHandler(webhooks);
    return async (url, body, headers) => {
      const { req, res } = createMocks({ method: "POST", url, headers, body: body as never });
      await take(req as never, res as never);
      return res.statusCode;
    };
  },
};

const rejections: unknown[] = [];
const warnings: string[] = [];
beforeEach(() => {
  rejections.length = 0;
  warnings.length = 0;
  for (const level of ["warn", "error"] as const)
    vi.spyOn(console, level).mockImplementation((...words) => void warnings.push(words.join(" ")));
  process.on("unhandledRejection", (error) => rejections.push(error));
});
afterEach(() => {
  process.removeAllListeners("unhandledRejection");
  vi.restoreAllMocks();
  expect([rejections, warnings.filter((line) => line.includes(SECRET))]).toEqual([[], []]);
});

function receiver(options: Parameters<typeof handlerOf>[0] = {}) {
  const verify = sharedSecret({ query: "key", secret: SECRET });
  const side = handlerOf({ verify, autoStart: false, ...options });
  onTestFinished(() => side.webhooks.close());
  return side;
}

const good = `/hooks?key=${SECRET}`;
const text = () => JSON.stringify(notificationOf());

test.each(Object.entries(hosts))("%s: 200, 401, 400 and 503, each at once", async (_, mount) => {
  const { webhooks, kinds } = receiver();
  const post = await mount(webhooks);
  const failing = memoryStore();
  failing.add = () => Promise.reject(new Error("disk full"));
  const postFailing = await mount(receiver({ store: failing }).webhooks);
  await post(good, text(), JSON_TYPE);
  stopLinger();
  const statuses = [
    await post(good, text(), JSON_TYPE),
    await post("/hooks?key=wrong", text(), JSON_TYPE),
    await post(good, "12", { "content-type": "text/plain" }),
    await post(good, JSON.stringify({ eventId: "12" }), JSON_TYPE),
    await postFailing(good, text(), JSON_TYPE),
  ];
  expect(statuses).toEqual([200, 401, 400, 400, 503]);
  expect(kinds().filter((kind) => kind === "received")).toHaveLength(2);
});

describe("JSON as a form", () => {
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const parsed: Record<string, Mount> = {
    "express.urlencoded, extended": served((webhooks) =>
      express()
        .use(express.urlencoded({ extended: true }))
        .use("/hooks", toNodeHandler(webhooks)),
    ),
    "express.urlencoded": served((webhooks) =>
      express()
        .use(express.urlencoded({ extended: false }))
        .use("/hooks", toNodeHandler(webhooks)),
    ),
    "NestJS on Express": hosts["NestJS on Express"] as Mount,
    "koa-body": hosts["koa-body"] as Mount,
    "Next's pages API": hosts["Next's pages API"] as Mount,
  };
  test.each(Object.entries(parsed))("behind %s is taken", async (_, mount) => {
    const { webhooks, store } = receiver();
    const post = await mount(webhooks);
    const notification = notificationOf({ note: "a=b&c" });
    expect(await post(good, JSON.stringify(notification), form)).toBe(200);
    const stored = await store.get(notification.eventId);
    expect(JSON.parse(stored?.notification ?? "")).toEqual(notification);
  });
});

describe("a gzip body", () => {
  const gzip = { "content-encoding": "gzip" };
  const apps = [
    "Fastify with @fastify/compress",
    "a Fastify hook that pauses",
    "h3 2",
    "koa-body",
    "NestJS on Express",
  ];
  test.each(apps)("is read in %s", async (name) => {
    const { webhooks, store } = receiver();
    const post = await (hosts[name] as Mount)(webhooks);
    const notification = notificationOf();
    const body = gzipSync(JSON.stringify(notification)) as unknown as string;
    expect(await post(good, body, { ...JSON_TYPE, ...gzip })).toBe(200);
    expect(JSON.parse((await store.get(notification.eventId))?.notification ?? "")).toEqual(notification);
  });
});
