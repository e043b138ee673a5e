// Mounts the console of console.ts in each framework that has an adapter or takes web requests.

import { createServer } from "node:http";
import type { INestApplication } from "@nestjs/common";
import type { Express } from "express";
import type { FastifyInstance } from "fastify";
import type { Hono } from "hono";
import type Koa from "koa";
import { toFastifyPlugin } from "stayhook/fastify";
import { toKoaMiddleware } from "stayhook/koa";
import { toNodeHandler } from "stayhook/node";
import { inbox } from "./console.ts";

export function onNode() {
  const showConsole = toNodeHandler(inbox);
  return createServer((request, response) => {
    if (request.url?.startsWith("/ops/console")) return showConsole(request, response);
    response.end("Hello\n"); // the rest of your app
  });
}

export function onExpress(app: Express): void {
  app.use("/ops/console", toNodeHandler(inbox));
}

export function onNest(app: INestApplication): void {
  app.use("/ops/console", toNodeHandler(inbox));
}

export async function onFastify(app: FastifyInstance): Promise<void> {
  await app.register(toFastifyPlugin(inbox), { prefix: "/ops/console" });
}

export function onKoa(app: Koa): void {
  const showConsole = toKoaMiddleware(inbox);
  app.use((context, next) => (context.path.startsWith("/ops/console") ? showConsole(context) : next()));
}

export function onHono(app: Hono): void {
  app.all("/ops/console", (c) => inbox.fetch(c.req.raw));
}
