import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { bodyParser } from "@koa/bodyparser";
import connect from "connect";
import express from "express";
import express4 from "express4";
import { fastify } from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import type { WebhookConsole } from "stayhook/console";
import { toFastifyPlugin } from "stayhook/fastify";
import { toKoaMiddleware } from "stayhook/koa";
import { toNodeHandler } from "stayhook/node";
import { expect, onTestFinished, test } from "vitest";
import { Browser, inboxOf, serve } from "./support.ts";

/** An app of each framework with the console at `/ops/console`, and a body parser in front where it has one. */
const frameworks: Readonly<
  Record<string, (inbox: WebhookConsole) => RequestListener | Promise<RequestListener>>
> = {
  "node:http": (inbox) => toNodeHandler(inbox),
  "Express 5": (inbox) => express().use("/ops/console", toNodeHandler(inbox)),
  "Express 5 with body parsers": (inbox) =>
    express().use(express.urlencoded()).use(express.json()).use("/ops/console", toNodeHandler(inbox)),
  "Express 4 with body parsers": (inbox) =>
    express4()
      .use(express4.urlencoded({ extended: true }))
      .use(express4.json())
      .use("/ops/console", toNodeHandler(inbox)),
  Connect: (inbox) => connect().use("/ops/console", toNodeHandler(inbox)),
  Koa: (inbox) => {
    const serveConsole = toKoaMiddleware(inbox);
    return new Koa()
      .use((context, next) => (context.path.startsWith("/ops/") ? serveConsole(context) : next()))
      .callback();
  },
  "Koa with a body parser": (inbox) => new Koa().use(bodyParser()).use(toKoaMiddleware(inbox)).callback(),
  Fastify: async (inbox) => {
    const app = fastify();
    app.register(toFastifyPlugin(inbox), { prefix: "/ops/console" });
    await app.ready();
    onTestFinished(() => app.close());
    return (request, response) => app.routing(request, response);
  },
  Hono: (inbox) => getRequestListener(new Hono().all("/ops/console", (c) => inbox.fetch(c.req.raw)).fetch),
  "Hono's mount": (inbox) => getRequestListener(new Hono().mount("/ops/console", inbox.fetch).fetch),
};

test.each(Object.keys(frameworks))("%s serves pages, forms and the stream", async (name) => {
  const { inbox, receive, store } = inboxOf({}, { basePath: "/ops/console" });
  const ids = [await receive({ bookingCode: "HX3K9" }), await receive({ bookingCode: "QW2MN" })];
  const origin = await serve(await frameworks[name]!(inbox));
  const url = `${origin}/ops/console`;
  const browser = new Browser();
  const page = await browser.get(url);
  expect(page.status).toBe(200);
  for (const eventId of ids) expect(page.text).toContain(`row-${eventId}`);
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");

  const chosen = ids.map((eventId) => ["event", eventId] as const);
  const after = await browser.submit(url, "discard", chosen);
  expect(after.text).toContain("Discarded 2 events.");
  expect(new URL(after.url).pathname).toBe("/ops/console");
  expect(await store.counts()).toMatchObject({ done: 2 });

  const leaving = new AbortController();
  const stream = await fetch(`${url}?live=1`, { signal: leaving.signal });
  const reader = stream.body!.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toContain("event: stats");
  leaving.abort();
});

test("a page that is left ends its stream: 60 in a row are all answered", { timeout: 30_000 }, async () => {
  const { inbox } = inboxOf();
  const url = await serve(toNodeHandler(inbox));
  for (let n = 0; n < 60; n++) {
    const leaving = new AbortController();
    const stream = await fetch(`${url}/?live=1`, { signal: leaving.signal });
    expect(stream.status).toBe(200);
    await stream.body?.getReader().read();
    leaving.abort();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
});

test("a form that is too large is answered before it has arrived, and the connection is not reset", async () => {
  const { inbox } = inboxOf();
  const url = await serve(toNodeHandler(inbox));
  const { status } = await new Browser().post(url, [["csrf", "x".repeat(300_000)]]);
  expect(status).toBe(413);
});

test.each(["//evil.example/", "/%zz", "/?%zz=%", "*"])("a target of %s is no failure", async (target) => {
  const { inbox } = inboxOf();
  const url = new URL(await serve(toNodeHandler(inbox)));
  const { request } = await import("node:http");
  const status = await new Promise((resolve, reject) => {
    const sent = request({ host: url.hostname, port: url.port, path: target }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.on("error", reject);
    sent.end();
  });
  expect(status).toBe(200);
});

test("an option of the adapters is refused: a console has no topic", () => {
  const { inbox } = inboxOf();
  expect(() => toNodeHandler(inbox, { topic: "bookings" })).toThrow(/topic/);
});
