import "reflect-metadata";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { type RequestListener, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { bodyParser } from "@koa/bodyparser";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import connect from "connect";
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { toNodeHandler } from "stayhook/node";
import { expect, onTestFinished, test, vi } from "vitest";
import { Browser, inboxOf, servedInboxOf } from "../../console/support.ts";
import { eventually } from "../../support/eventually.ts";
import { serve } from "../../support/serve.ts";

/** Starts the example's console with two events, and a browser that is signed in. */
async function example() {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-console-"));
  vi.stubEnv("EVENTS_DB", join(directory, "events.db"));
  vi.stubEnv("STAYHOOK_BASE_URL", "https://platform.example");
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "secret-token");
  vi.stubEnv("WEBHOOK_SECRET", "a secret of many letters");
  vi.resetModules();
  const { store, webhooks, sessions, inbox } = await import("../../../examples/console/console.ts");
  const mounts = await import("../../../examples/console/mounts.ts");
  const next = await import("../../../examples/console/next.ts");
  sessions.set("s3ss10n", { role: "support", email: "bo@example.com" });
  sessions.set("0ther", { role: "guest", email: "al@example.com" });
  const ids = ["HX3K9", "QW2MN"].map((code) => ({ eventId: randomUUID(), ref: `booking:${code}` }));
  const rest = {
    source: "webhook",
    topic: null,
    timestamp: new Date().toISOString(),
    notification: "{}",
  } as const;
  for (const each of ids) await store.add({ ...each, ...rest });
  onTestFinished(async () => {
    await webhooks.close();
    await store.close();
    rmSync(directory, { recursive: true });
    vi.unstubAllEnvs();
  });
  return { store, inbox, mounts, next, ids: ids.map(({ eventId }) => eventId) };
}

type Example = Awaited<ReturnType<typeof example>>;
const express4: typeof express = (await import("express4" as string)).default;

/** An app of each framework, with and without a body parser in front. */
const frameworks: Readonly<Record<string, (example: Example) => RequestListener | Promise<RequestListener>>> =
  {
    "node:http": ({ mounts }) => mounts.onNode().listeners("request")[0] as RequestListener,
    "Express 5": ({ mounts }) => {
      const app = express();
      mounts.onExpress(app);
      return app;
    },
    "Express 5 with body parsers": ({ mounts }) => {
      const app = express().use(express.urlencoded()).use(express.json());
      mounts.onExpress(app);
      return app;
    },
    "Express 4 with body parsers": ({ mounts }) => {
      const app = express4()
        .use(express4.urlencoded({ extended: true }))
        .use(express4.json());
      mounts.onExpress(app);
      return app;
    },
    Connect: ({ inbox }) => connect().use("/ops/console", toNodeHandler(inbox)),
    Koa: ({ mounts }) => {
      const app = new Koa();
      mounts.onKoa(app);
      return app.callback();
    },
    "Koa with a body parser": ({ mounts }) => {
      const app = new Koa();
      app.use(bodyParser());
      mounts.onKoa(app);
      return app.callback();
    },
    Fastify: async ({ mounts }) => {
      const app = fastify();
      await mounts.onFastify(app);
      await app.ready();
      onTestFinished(() => app.close());
      return (request, response) => app.routing(request, response);
    },
    NestJS: async ({ mounts }) => {
      const app = await NestFactory.create(emptyModule(), { logger: false });
      mounts.onNest(app);
      await app.init();
      onTestFinished(() => app.close());
      return app.getHttpAdapter().getInstance();
    },
    Hono: ({ mounts }) => {
      const app = new Hono();
      mounts.onHono(app);
      return getRequestListener(app.fetch);
    },
    "Hono's mount": ({ inbox }) => getRequestListener(new Hono().mount("/ops/console", inbox.fetch).fetch),
    "Next.js": ({ next }) =>
      getRequestListener((request) => (request.method === "POST" ? next.POST(request) : next.GET(request))),
  };

function emptyModule(): new () => object {
  class AppModule {}
  Module({})(AppModule);
  return AppModule;
}

test.each(Object.keys(frameworks))("%s serves pages, forms and updates", async (name) => {
  const made = await example();
  const { ids, store } = made;
  const origin = await serve(await frameworks[name]!(made));
  const url = `${origin}/ops/console`;
  const browser = new Browser();
  expect((await browser.get(url)).status).toBe(403);
  browser.cookies.set("session", "0ther");
  expect((await browser.get(url)).status).toBe(403);
  browser.cookies.set("session", "s3ss10n");
  const page = await browser.get(url);
  expect(page.status).toBe(200);
  for (const eventId of ids) expect(page.text).toContain(`row-${eventId}`);
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");

  const chosen = ids.map((eventId) => ["event", eventId] as const);
  const after = await browser.submit(url, "discard", chosen);
  expect(after.text).toContain("Discarded 2 events.");
  expect(new URL(after.url).pathname).toBe("/ops/console");
  expect(await store.counts()).toMatchObject({ done: 2 });

  const update = await browser.get(`${url}?live=1`);
  expect(JSON.parse(update.text)).toMatchObject({ stats: { done: 2 } });
});

test("a form that is too large is answered before it has arrived, and the connection is not reset", async () => {
  const { url, browser } = await servedInboxOf();
  const { status } = await browser.post(url, { csrf: "x".repeat(300_000) });
  expect(status).toBe(413);
});

test("a form of a stranger is refused, and its bytes are taken, so that the connection is not reset", async () => {
  const { inbox } = inboxOf({}, { authorize: () => false });
  const listener = toNodeHandler(inbox);
  const ended: string[] = [];
  const url = await serve((incoming, response) => {
    incoming.once("end", () => ended.push("the body"));
    response.once("finish", () => ended.push("the answer"));
    listener(incoming, response);
  });
  const { status } = await fetch(url, { method: "POST", body: "x".repeat(1_000_000) });
  expect(status).toBe(403);
  await eventually(() => expect(ended).toEqual(["the body", "the answer"]));
});

test.each(["//evil.example/", "/%zz", "/?%zz=%", "*"])("a target of %s is no failure", async (target) => {
  const url = new URL((await servedInboxOf()).url);
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
