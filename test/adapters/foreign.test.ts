// Requests and responses that are not Node's own, and hosts that do not wait.

import { randomUUID } from "node:crypto";
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { eventually } from "../support/eventually.ts";
import { bookingNotification } from "../webhooks/receiving/receiver.ts";
import { receivingOnly, send, serve, stopLinger } from "./served.ts";

const text = JSON.stringify(bookingNotification);

const rejections: unknown[] = [];
const keep = (error: unknown) => void rejections.push(error);
let logged: ReturnType<typeof vi.spyOn>;
beforeEach(() => {
  rejections.length = 0;
  logged = vi.spyOn(console, "error").mockImplementation(() => {});
  process.on("unhandledRejection", keep);
  process.on("uncaughtException", keep);
});
afterEach(async () => {
  await new Promise((resolve) => setTimeout(resolve, 5));
  process.off("unhandledRejection", keep);
  process.off("uncaughtException", keep);
  vi.restoreAllMocks();
  expect(rejections).toEqual([]);
});

type Call = (
  request: IncomingMessage,
  response: ServerResponse,
) => readonly [request: unknown, response: unknown];

/** Serves a listener that passes other objects than Node's. */
async function served(call: Call, options: Parameters<typeof receivingOnly>[0] = {}) {
  const side = receivingOnly(options);
  const take = toNodeHandler(side.webhooks) as (request: unknown, response: unknown) => Promise<void>;
  return { ...side, ...(await serve((request, response) => void take(...call(request, response)))) };
}

describe("the listener", () => {
  it("has three arguments, and its promise settles when the answer is sent", async () => {
    const { webhooks } = receivingOnly();
    const take = toNodeHandler(webhooks);
    expect(take).toHaveLength(3);
    const states: boolean[] = [];
    const next = vi.fn();
    const { port } = await serve(async (request, response) => {
      const answered = take(request, response, next);
      states.push(response.writableEnded);
      expect(await answered).toBeUndefined();
      states.push(response.writableFinished);
    });
    for (const body of [text, "{", undefined]) await send(port, body);
    await eventually(() => expect(states).toEqual([false, true, false, true, false, true]));
    expect(next).not.toHaveBeenCalled();
  });

  it("has a promise that also settles if the client leaves, or somebody else answers", async () => {
    const { webhooks } = receivingOnly();
    const take = toNodeHandler(webhooks);
    const settled = vi.fn();
    const { port } = await serve((request, response) => {
      void Promise.resolve<unknown>(take(request, response)).then(settled);
      if (request.url === "/gone") response.destroy();
      else response.end("mine");
    });
    await expect(send(port, text, { path: "/gone" })).rejects.toThrow();
    expect((await send(port, text)).body).toBe("mine");
    await eventually(() => expect(settled).toHaveBeenCalledTimes(2));
  });
});

describe("Node's objects are found in", () => {
  const wrapped: Record<string, Call> = {
    "Fastify's request and reply": (raw, response) => [
      { raw, method: raw.method, headers: raw.headers, originalUrl: raw.url },
      { raw: response, hijack: vi.fn() },
    ],
    "Koa's request and response": (req, res) => [
      { req, method: req.method, headers: req.headers, ctx: { req, res } },
      { res },
    ],
    "Koa's context": (req, res) => [{ req, res, method: req.method, headers: req.headers }, undefined],
    "h3's event": (req, res) => [{ node: { req, res } }, { node: { req, res } }],
    "hapi's request": (req, res) => [{ raw: { req, res }, method: "post", headers: req.headers }, {}],
    "Express's request": (req, res) => [Object.assign(req, { res }), undefined],
  };
  it.each(Object.entries(wrapped))("%s", async (_, call) => {
    const { port, added } = await served(call);
    expect((await send(port, text)).status).toBe(200);
    expect(added).toHaveLength(1);
  });

  it("the body of the framework's request counts, and Koa and Fastify are told not to answer", async () => {
    const context = { respond: true };
    const hijack = vi.fn();
    const { port, added } = await served((req, raw) => {
      req.resume();
      return [
        { raw: req, body: bookingNotification, ctx: Object.assign(context, { req, res: raw }) },
        { raw, hijack },
      ];
    });
    expect((await send(port, text)).status).toBe(200);
    expect([added.length, context.respond, hijack.mock.calls.length]).toEqual([1, false, 1]);
  });
});

describe("the process goes on, and the client gets an answer", () => {
  const broken: Record<string, readonly [status: number, call: Call]> = {
    "a bridge without a socket": [
      200,
      ({ method, url, headers }, response) => [
        Object.assign(Readable.from([text]), { method, url, headers, socket: null }),
        response,
      ],
    ],
    "a writeHead that throws": [
      200,
      (request, response) => {
        response.writeHead = () => {
          throw new Error("a middleware's listener");
        };
        return [request, response];
      },
    ],
    "a response without writeHead": [
      200,
      (request, response) => {
        const { end, setHeader } = response;
        const bare = {
          set statusCode(status: number) {
            response.statusCode = status;
          },
          end: end.bind(response),
          setHeader: setHeader.bind(response),
        };
        return [request, bare];
      },
    ],
    "a request that is none": [500, (_request, response) => [undefined, response]],
    "a getter of the request that throws": [
      500,
      (request, response) => {
        Object.defineProperty(request, "body", {
          get() {
            throw new Error("lazy body");
          },
        });
        return [request, response];
      },
    ],
  };
  it.each(Object.entries(broken))("%s", async (_, [status, call]) => {
    const { port } = await served(call);
    expect((await send(port, text)).status).toBe(status);
  });

  it("a response that cannot be written at all is closed", async () => {
    const { port } = await served((request, response) => {
      response.end = () => {
        throw new Error("never ends");
      };
      return [request, response];
    });
    await expect(send(port, text)).rejects.toThrow();
  });
});

it("without a response, the promise rejects with what to do, for hosts that wait, and the log says it once", async () => {
  const { webhooks, log } = receivingOnly();
  const take = toNodeHandler(webhooks) as (...given: unknown[]) => Promise<void>;
  const request = new Request("http://localhost/hooks", { method: "POST", body: text });
  for (const given of [[request, { params: {} }], [request], [], ["text", 1], [null, null]]) {
    await expect(take(...given)).rejects.toThrow(/webhooks\.fetch/);
    // A host that ignores the promise must not end.
    void take(...given);
  }
  expect(log.length + logged.mock.calls.length).toBe(1);
});

it("a request without a connection is answered at once, on no timer", async () => {
  const { webhooks } = receivingOnly({ verify: () => false });
  const mock = Object.assign(new EventEmitter(), {
    ...{
      method: "POST",
      url: "/",
      headers: {},
      complete: false,
      httpVersionMajor: 1,
      pause() {},
      socket: {},
    },
  });
  const ended = vi.fn();
  const response = { writeHead: vi.fn(), write: vi.fn(), end: ended };
  stopLinger();
  await toNodeHandler(webhooks)(mock as never, response as never);
  expect(ended).toHaveBeenCalledOnce();
  expect(response.writeHead.mock.calls[0]?.[0]).toBe(401);
});

describe("`receive` and `fetch` of a handler", () => {
  const handler = () => {
    const lines: string[] = [];
    const store = memoryStore();
    const webhooks = createWebhookHandler({
      client: new StayhookClient({ baseUrl: "https://api.example", accessToken: "token" }),
      store,
      verify: false,
      on: {},
      autoStart: false,
      logger: ({ message, error }) => void lines.push([message, error].join(" ")),
    });
    return { webhooks, store, lines };
  };

  it.each(["receive", "fetch"] as const)("%s takes Node's request", async (method) => {
    const { webhooks, store } = handler();
    const { port } = await serve(async (request, response) => {
      if (request.url?.endsWith("parsed"))
        Object.assign(request, { body: JSON.parse(await bodyOf(request)) });
      const { status } = await webhooks[method](request as never);
      response.writeHead(status).end();
    });
    expect((await send(port, text)).status).toBe(200);
    expect((await send(port, "{")).status).toBe(400);
    const other = JSON.stringify({ ...bookingNotification, eventId: randomUUID() });
    expect((await send(port, other, { path: "/parsed" })).status).toBe(200);
    expect(await store.counts()).toMatchObject({ pending: 2 });
  });

  it.each([undefined, null, {}, "https://app.example/hooks", 5])(
    "answer 500 to %j, and the log says what to pass",
    async (request) => {
      for (const method of ["receive", "fetch"] as const) {
        const { webhooks, lines } = handler();
        expect((await webhooks[method](request as never)).status).toBe(500);
        expect(lines.join()).toContain("`fetch` takes a web Request");
      }
    },
  );
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  return Buffer.concat(await request.toArray()).toString();
}
