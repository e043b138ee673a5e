import type { RequestHandler } from "express";
import express5 from "express";
import { describe, expect, it, vi } from "vitest";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { sharedSecret } from "../../src/webhooks/receiving/verify.ts";
import { bookingNotification } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send, serve } from "./served.ts";

const express4: typeof express5 = (await import("express4" as string)).default;
const text = JSON.stringify(bookingNotification);

describe.each([
  ["Express 5", express5],
  ["Express 4", express4],
])("%s", (_, express) => {
  const parsers: Record<string, RequestHandler[]> = {
    "no parser": [],
    "express.json()": [express.json()],
    "express.json() of any type": [express.json({ type: () => true, strict: false })],
    "express.raw()": [express.raw()],
    "express.raw() of any type": [express.raw({ type: () => true })],
    "express.text()": [express.text()],
    "express.text() of any type": [express.text({ type: () => true })],
    "express.urlencoded()": [express.urlencoded({ extended: true })],
    "all of them": [express.json(), express.urlencoded({ extended: false }), express.text(), express.raw()],
  };

  describe.each(Object.entries(parsers))("behind %s", (_, middleware) => {
    it.each([
      "application/json",
      "text/plain",
      "application/octet-stream",
      "application/cloudevents+json",
      undefined,
    ])("records a notification sent as %s", async (type) => {
      const { webhooks, added } = receivingOnly({ replyWithin: 1_000 });
      const app = express();
      for (const parser of middleware) app.use(parser);
      app.post("/hooks", toNodeHandler(webhooks));
      const { port } = await serve(app);
      const headers = type === undefined ? {} : { "content-type": type };
      expect((await send(port, text, { headers })).status).toBe(200);
      expect(JSON.parse(added[0]?.notification ?? "null")).toEqual(bookingNotification);
    });

    it.each([undefined, "{}", "null", "12", '"text"'])(
      "answers 400 for the body %s, and does not hang",
      async (body) => {
        const { webhooks, added } = receivingOnly({ replyWithin: 1_000 });
        const app = express();
        for (const parser of middleware) app.use(parser);
        app.post("/hooks", toNodeHandler(webhooks));
        app.use(((_error, _request, response, _next) => {
          response.status(400).end();
        }) as import("express").ErrorRequestHandler);
        const { port } = await serve(app);
        expect((await send(port, body, { headers: { "content-type": "application/json" } })).status).toBe(
          400,
        );
        expect(added).toEqual([]);
      },
    );
  });

  it("mounts on a path, and verify sees the whole URL", async () => {
    const { webhooks } = receivingOnly({ verify: sharedSecret({ pathSegment: "last", secret: "geheim" }) });
    const app = express();
    const router = express.Router();
    router.use("/hooks", toNodeHandler(webhooks));
    app.use("/api", router);
    const { port } = await serve(app);
    expect((await send(port, text, { path: "/api/hooks/geheim?a=1" })).status).toBe(200);
    expect((await send(port, text, { path: "/api/hooks/falsch" })).status).toBe(401);
    // The mount path is the whole path, so Express passes only "/" on as the URL.
    app.use("/all/geheim", toNodeHandler(webhooks));
    expect((await send(port, text, { path: "/all/geheim" })).status).toBe(200);
  });

  it("measures a parsed body by what was sent", async () => {
    const { webhooks } = receivingOnly({ maxBodyBytes: text.length + 10 });
    const app = express();
    app.post("/hooks", express.json(), toNodeHandler(webhooks));
    const { port } = await serve(app);
    const headers = { "content-type": "application/json" };
    expect((await send(port, text, { headers })).status).toBe(200);
    expect((await send(port, text.replace("{", `{${" ".repeat(11)}`), { headers })).status).toBe(413);
  });

  it("has its answers sent by this alone: no next, no error handler", async () => {
    const failing = receivingOnly({
      verify: () => {
        throw new Error("private detail");
      },
    });
    const after = vi.fn();
    const app = express();
    app.use("/hooks", toNodeHandler(failing.webhooks));
    app.use(((_error, _request, response, _next) => {
      after();
      response.end();
    }) as import("express").ErrorRequestHandler);
    app.use((_request, response) => {
      after();
      response.end();
    });
    const { port } = await serve(app);
    expect((await send(port, text)).status).toBe(401);
    expect((await send(port, undefined, { method: "GET" })).status).toBe(405);
    expect(after).not.toHaveBeenCalled();
  });
});
