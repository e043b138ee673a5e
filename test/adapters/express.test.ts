import type { ErrorRequestHandler, RequestHandler } from "express";
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
    "express.json() of any type": [express.json({ type: () => true, strict: false })],
    "express.raw()": [express.raw()],
    "express.raw() of any type": [express.raw({ type: () => true })],
    "express.text()": [express.text()],
    "express.text() of any type": [express.text({ type: () => true })],
    "express.urlencoded()": [express.urlencoded({ extended: true })],
    "all of them": [express.json(), express.urlencoded({ extended: false }), express.text(), express.raw()],
  };

  // The table over all frameworks tests Express without a parser and behind `express.json()`.
  it.each(Object.entries(parsers))(
    "behind %s: 200 to every content type, 400 to no notification",
    async (_, all) => {
      const { webhooks, added } = receivingOnly({ replyWithin: 1_000 });
      const app = express();
      for (const parser of all) app.use(parser);
      app.post("/hooks", toNodeHandler(webhooks));
      app.use(((_error, _request, response, _next) => {
        response.status(400).end();
      }) as ErrorRequestHandler);
      const { port } = await serve(app);
      for (const type of ["application/json", "text/plain", "application/octet-stream", undefined]) {
        const headers = type === undefined ? {} : { "content-type": type };
        expect((await send(port, text, { headers })).status, type).toBe(200);
        for (const body of [undefined, "{}", "null", "12", '"text"'])
          expect((await send(port, body, { headers })).status, `${type}: ${body}`).toBe(400);
      }
      expect(added.map(({ notification }) => JSON.parse(notification ?? ""))).toEqual([bookingNotification]);
    },
  );

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

  it("sends its answers itself: no next, no error handler", async () => {
    const { webhooks } = receivingOnly({ verify: () => Promise.reject(new Error("private detail")) });
    const after = vi.fn((_request, response) => response.end());
    const app = express();
    app.use("/hooks", toNodeHandler(webhooks));
    app.use(((_error, request, response, _next) => after(request, response)) as ErrorRequestHandler);
    app.use((request, response) => after(request, response));
    const { port } = await serve(app);
    expect((await send(port, text)).status).toBe(401);
    expect((await send(port, undefined, { method: "GET" })).status).toBe(405);
    expect(after).not.toHaveBeenCalled();
  });
});
