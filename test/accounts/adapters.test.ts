import express from "express";
import fastify from "fastify";
import Koa from "koa";
import { describe, expect, onTestFinished, test } from "vitest";
import { toFastifyPlugin } from "../../src/adapters/fastify.ts";
import { toKoaMiddleware } from "../../src/adapters/koa.ts";
import { toLambdaHandler } from "../../src/adapters/lambda.ts";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { createWebhookHandler, InvalidArgumentError, memoryStore, StayhookClient } from "../../src/index.ts";
import { serve } from "../adapters/served.ts";

const UUID = "3f0e1d9a-58b4-4c4f-9a6e-6f3f1c2a7b10";
const body = JSON.stringify({ eventId: UUID, bookingCode: "HX3K9" });

function setup() {
  const client = new StayhookClient({ baseUrl: "https://api.example", accessToken: () => "t" });
  const store = memoryStore();
  const seen: unknown[] = [];
  const webhooks = createWebhookHandler({
    ...{
      client,
      store,
      verify: false,
      autoStart: false,
      accountFrom: { query: "account" },
      logger: () => {},
    },
    observe: (event: unknown) => void seen.push(event),
    on: {},
  });
  const ids = async () => (await store.list({ limit: 9 })).map(({ eventId }) => eventId);
  return { webhooks, ids, seen };
}

const post = async (url: string) => (await fetch(url, { method: "POST", body })).status;
const fail = () => {
  throw new Error("secret");
};

describe("an adapter's option account", () => {
  test("Express: a function of the request's parameters, which wins", async () => {
    const { webhooks, ids, seen } = setup();
    const app = express();
    app.post("/hooks/:account", toNodeHandler(webhooks, { account: (request) => request.params.account }));
    app.post("/failing", toNodeHandler(webhooks, { account: fail }));
    app.post("/left-out", toNodeHandler(webhooks, { account: () => undefined }));
    const { url } = await serve(app);
    expect(await post(`${url}/hooks/a17?account=b2`)).toBe(200);
    expect(await post(`${url}/hooks/a%20b`)).toBe(404);
    expect(await post(`${url}/left-out?account=c3`)).toBe(200);
    expect(await post(`${url}/failing?account=a17`)).toBe(503);
    expect(seen.at(-1)).toMatchObject({ kind: "refused", reason: "account-failed" });
    expect(await ids()).toEqual([`c3/${UUID}`, `a17/${UUID}`]);
  });

  test("node:http: a text", async () => {
    const { webhooks, ids } = setup();
    const { url } = await serve(toNodeHandler(webhooks, { account: "a17" }));
    expect(await post(url)).toBe(200);
    expect(await ids()).toEqual([`a17/${UUID}`]);
  });

  test("Fastify: a function of the request's parameters", async () => {
    const { webhooks, ids } = setup();
    const app = fastify();
    onTestFinished(() => app.close());
    const plugin = toFastifyPlugin(webhooks, { account: (request) => request.params.account });
    app.register(plugin, { prefix: "/hooks/:account" });
    expect(await post(`${await app.listen({ port: 0, host: "127.0.0.1" })}/hooks/a17`)).toBe(200);
    expect(await ids()).toEqual([`a17/${UUID}`]);
  });

  test("Koa: a function of the context", async () => {
    const { webhooks, ids } = setup();
    const app = new Koa();
    app.use(toKoaMiddleware(webhooks, { account: (context) => context.originalUrl.split("/").at(-1) }));
    const { url } = await serve(app.callback());
    expect(await post(`${url}/hooks/a17`)).toBe(200);
    expect(await ids()).toEqual([`a17/${UUID}`]);
  });

  test("Lambda: a function of the event", async () => {
    const { webhooks, ids } = setup();
    const handler = toLambdaHandler(webhooks, { account: (event) => event.pathParameters?.account });
    const event = { httpMethod: "POST", path: "/hooks", body };
    expect((await handler({ ...event, pathParameters: { account: "a17" } })).statusCode).toBe(200);
    expect((await handler(event)).statusCode).toBe(404);
    expect(await ids()).toEqual([`a17/${UUID}`]);
  });

  type Make = (webhooks: ReturnType<typeof setup>["webhooks"], options: { account: string }) => unknown;
  test.each<Make>([toNodeHandler, toFastifyPlugin, toKoaMiddleware, toLambdaHandler])(
    "%o refuses what is wrong",
    (make) => {
      expect(() => make(setup().webhooks, { account: "a/b" })).toThrow(InvalidArgumentError);
    },
  );

  test("needs a handler with accountFrom", () => {
    const client = new StayhookClient({ baseUrl: "https://api.example", accessToken: () => "t" });
    const webhooks = createWebhookHandler({
      client,
      store: memoryStore(),
      verify: false,
      autoStart: false,
      on: {},
    });
    expect(() => toNodeHandler(webhooks, { account: "a17" })).toThrow(/accountFrom/);
  });
});
