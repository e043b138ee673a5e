import { bodyParser } from "@koa/bodyparser";
import Koa from "koa";
import { sharedSecret } from "stayhook";
import { toKoaMiddleware } from "stayhook/koa";
import { expect, test } from "vitest";
import { bookingNotification } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send, serve } from "./served.ts";

test("Koa: verify gets the URL that was asked for, and the body is read behind a parser of every type", async () => {
  const { webhooks, added } = receivingOnly({
    verify: sharedSecret({ pathSegment: "last", secret: "geheim" }),
  });
  const app = new Koa().use(bodyParser({ enableTypes: ["json", "form", "text"] })).use((context, next) => {
    context.url = "/rewritten";
    return next();
  });
  const { port } = await serve(app.use(toKoaMiddleware(webhooks)).callback());
  const text = JSON.stringify(bookingNotification);
  for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"]) {
    const answer = await send(port, text, { path: "/hooks/geheim", headers: { "content-type": type } });
    expect(answer.status, type).toBe(200);
  }
  expect(added.map(({ notification }) => JSON.parse(notification ?? ""))).toEqual([bookingNotification]);
});
