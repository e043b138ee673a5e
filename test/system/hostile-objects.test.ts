import type { WebhookHandlerOptions } from "stayhook";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { ReceiveContext } from "../../src/webhooks/handler.ts";
import { notificationOf, recordingLogger } from "../webhooks/support.ts";

const thrown: unknown[] = [];
const caught = (error: unknown): void => void thrown.push(error);
process.on("uncaughtException", caught).on("unhandledRejection", caught);
afterAll(() => {
  process.off("uncaughtException", caught).off("unhandledRejection", caught);
});
afterEach(async () => {
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(thrown.splice(0)).toEqual([]);
});

function handlerOf(options: Partial<WebhookHandlerOptions> = {}) {
  const store = memoryStore();
  const logger = recordingLogger();
  const webhooks = createWebhookHandler({
    client: new StayhookClient({
      baseUrl: "https://platform.example",
      accessToken: "token",
      fetch: async () => Response.json({}, { status: 404 }),
    }),
    on: {},
    logger,
    verify: false,
    autoStart: false,
    replyWithin: 1_000,
    ...options,
    store,
  });
  /** Calls the handler with any value. Returns the status of its answer. */
  const receive = async (request: unknown, context?: unknown): Promise<number> =>
    (await webhooks.receive(request as never, context as ReceiveContext)).status;
  const fetch = async (body: unknown): Promise<number> => {
    const init = { method: "POST", body, duplex: "half" } as RequestInit;
    return (await webhooks.fetch(new Request("http://x/", init))).status;
  };
  const recorded = async (): Promise<number> =>
    Object.values(await store.counts()).reduce((a, b) => a + b, 0);
  return { webhooks, logger, receive, fetch, recorded };
}

const request = { method: "POST", url: "/", headers: {} };
const text = (more: Record<string, unknown> = {}): string => JSON.stringify(notificationOf(more));
const fail = (): never => {
  throw new Error("hostile");
};
const hostile = (): unknown => new Proxy({}, { get: fail, has: fail, ownKeys: fail });
const revoked = (): unknown => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const never = (): Promise<never> => new Promise(() => {});

function nested(depth: number, innermost: unknown): object {
  let value = innermost;
  for (let level = 0; level < depth; level++) value = { inner: value };
  return { ...notificationOf(), value };
}

function circle(depth: number): object {
  const root: Record<string, unknown> = notificationOf();
  root.root = nested(depth, root);
  return root;
}

describe("receive", () => {
  it.each([
    ["null", null],
    ["nothing", undefined],
    ["a number", 5],
    ["an empty object", {}],
    ["a Proxy that throws", hostile()],
    ["a Proxy that was revoked", revoked()],
    ["a method that is none", { ...request, method: 5, body: text() }],
    ["a getter that throws", Object.defineProperty({ ...request }, "body", { get: fail })],
    ["every getter throwing", Object.defineProperties({}, { method: { get: fail }, topic: { get: fail } })],
  ])("answers 500 to a request that is none, and never rejects: %s", async (_, broken) => {
    const { receive, recorded, logger } = handlerOf();
    expect(await receive(broken)).toBe(500);
    expect(await recorded()).toBe(0);
    expect(logger.lines).toEqual([expect.stringContaining("unexpected error")]);
  });

  it.each<[string, unknown]>([
    ["a number", 5],
    ["a bigint", 5n],
    ["a symbol", Symbol("x")],
    ["a function", () => text()],
    ["an array", [1]],
    ["a Map", new Map([["eventId", "x"]])],
    ["toJSON that throws", { ...notificationOf(), toJSON: fail }],
    ["toJSON that gives nothing", { ...notificationOf(), toJSON: () => undefined }],
    ["a getter that throws", Object.defineProperty({}, "eventId", { get: fail, enumerable: true })],
    ["a circle", circle(1)],
    ["a bigint far within", nested(20_000, 5n)],
    ["a toStringTag that lies", { [Symbol.toStringTag]: "ArrayBuffer", length: 10 }],
  ])("answers 400 to a body that is no notification: %s", async (_, body) => {
    const { receive, recorded } = handlerOf();
    expect(await receive({ ...request, body })).toBe(400);
    expect(await recorded()).toBe(0);
  });

  it("answers 413 to an array that is huge", async () => {
    const { receive, recorded } = handlerOf();
    expect(await receive({ ...request, body: new Array(1_000_000) })).toBe(413);
    expect(await recorded()).toBe(0);
  });

  it("records no text that is not JSON, though escaping what it holds would make it so", async () => {
    const { receive, recorded } = handlerOf();
    const stray = text({ note: "@" }).replace("@", "\\\ud800");
    expect(() => JSON.parse(stray)).toThrow();
    expect(await receive({ ...request, body: stray })).toBe(400);
    expect(await recorded()).toBe(0);
  });

  it.each<[string, unknown, readonly number[]]>([
    ["null", null, [200]],
    ["a number", 5, [200, 500]],
    ["text", "content-length: 5", [200, 500]],
    ["lists", [["content-length", "5"]], [200]],
    ["broken lists", [[1], null], [200, 500]],
    ["a Map", new Map([["Content-Length", "5"]]), [200]],
    ["no prototype", Object.create(null), [200]],
    ["a length that is none", { "content-length": "-5" }, [200]],
    ["two lengths", { "content-length": ["1", "2"] }, [200]],
    ["a number as length", { "content-length": 1e9 }, [200, 413]],
    ["an object that will be no text", { "content-length": { toString: fail } }, [200, 500]],
    ["a Proxy that throws", hostile(), [200, 500]],
  ])("takes headers that are none as none, or answers 500: %s", async (_, headers, statuses) => {
    const { receive, recorded } = handlerOf();
    let accepted = 0;
    for (const body of [text(), notificationOf(), new TextEncoder().encode(text())]) {
      const status = await receive({ ...request, headers, body });
      expect(statuses).toContain(status);
      if (status === 200) accepted++;
    }
    expect(await recorded()).toBe(accepted);
  });

  const iterable = (iterator: unknown): unknown => ({ [Symbol.asyncIterator]: () => iterator });

  it.each<[string, number, unknown]>([
    ["whose iterator cannot be had", 400, { [Symbol.asyncIterator]: fail }],
    ["whose iterator is none", 400, iterable(null)],
    ["that throws", 400, iterable({ next: fail })],
    ["that rejects", 400, iterable({ next: async () => fail() })],
    ["that gives no results", 400, iterable({ next: () => undefined })],
    ["that yields what is no bytes", 400, iterable({ next: async () => ({ value: { length: 5 } }) })],
    [
      "that yields a Proxy of bytes",
      400,
      iterable({ next: async () => ({ value: new Proxy(new Uint8Array(5), {}) }) }),
    ],
    ["that is silent", 408, iterable({ next: never })],
    ["that is silent, and whose return hangs", 408, iterable({ next: never, return: never })],
    ["that is silent, and whose return throws", 408, iterable({ next: never, return: fail })],
    ["that yields nothing for ever", 408, iterable({ next: async () => ({ value: new Uint8Array(0) }) })],
    ["that yields empty text for ever", 408, iterable({ next: async () => ({ value: "" }) })],
    ["that never ends", 413, iterable({ next: async () => ({ value: new Uint8Array(9) }) })],
    ["whose reader cannot be had", 400, { getReader: fail }],
    ["whose reader is none", 400, { getReader: () => null }],
    ["whose reader cannot be released", 400, { getReader: () => ({ read: async () => ({ done: true }) }) }],
    ["whose silent reader cannot be released", 408, { getReader: () => ({ read: never }) }],
    ["that takes no listeners", 400, { on: fail, pause() {} }],
    ["that cannot be paused", 408, { on() {}, removeListener() {}, pause: fail }],
  ])("answers in time to a source %s: %i", async (_, status, body) => {
    const { receive, recorded } = handlerOf();
    expect(await receive({ ...request, body })).toBe(status);
    expect(await recorded()).toBe(0);
  });

  it("leaves others their turn while a source is always ready", async () => {
    const { receive } = handlerOf();
    const busy = receive({
      ...request,
      body: iterable({ next: async () => ({ value: new Uint8Array(0) }) }),
    });
    let turns = 0;
    const counting = setInterval(() => void turns++, 1);
    expect(await busy).toBe(408);
    clearInterval(counting);
    expect(turns).toBeGreaterThan(10);
  });

  it("answers 200 for what is recorded, whatever the context is", async () => {
    const { receive, recorded, logger } = handlerOf();
    const contexts = [null, 5, {}, { waitUntil: fail }, { waitUntil: null }];
    for (const context of contexts) expect(await receive({ ...request, body: text() }, context)).toBe(200);
    expect(await recorded()).toBe(contexts.length);
    expect(logger.lines).toEqual([expect.stringMatching(/could not be processed in waitUntil.*hostile/)]);
  });
});

describe("fetch", () => {
  const stream = (pull: (controller: ReadableStreamDefaultController<unknown>) => unknown): ReadableStream =>
    new ReadableStream({ pull: (controller) => void pull(controller) });

  it.each<[string, number, () => unknown]>([
    ["that fails at once", 400, () => stream((controller) => controller.error(new Error("x")))],
    ["that fails with nothing", 400, () => stream((controller) => controller.error(undefined))],
    ["that is silent", 408, () => new ReadableStream({ pull: never, cancel: never })],
    [
      "that yields nothing for ever",
      408,
      () => stream((controller) => controller.enqueue(new Uint8Array(0))),
    ],
    ["that never ends", 413, () => stream((controller) => controller.enqueue(new Uint8Array(9)))],
    ["of huge chunks", 413, () => stream((controller) => controller.enqueue(new Uint8Array(50_000_000)))],
    ["of numbers", 400, () => stream((controller) => controller.enqueue(5))],
    ["of objects", 400, () => stream((controller) => controller.enqueue({ length: 5 }))],
    ["that ends at once", 400, () => stream((controller) => controller.close())],
    ["that is none", 400, () => null],
  ])("answers in time to a body %s: %i", async (_, status, body) => {
    const { fetch, recorded } = handlerOf();
    expect(await fetch(body())).toBe(status);
    expect(await recorded()).toBe(0);
  });

  it("fails half-way without recording what was whole by then", async () => {
    const { fetch, recorded } = handlerOf();
    let step = 0;
    const body = stream((controller) =>
      step++ === 0 ? controller.enqueue(new TextEncoder().encode(text())) : controller.error(new Error("x")),
    );
    expect(await fetch(body)).toBe(400);
    expect(await recorded()).toBe(0);
  });

  it("takes text in a stream for its bytes", async () => {
    const { fetch, recorded } = handlerOf();
    const body = stream((controller) => {
      controller.enqueue(text());
      controller.close();
    });
    expect(await fetch(body)).toBe(200);
    expect(await recorded()).toBe(1);
  });

  it("answers 500, for the sender to come again, where another has the body", async () => {
    const { webhooks, recorded } = handlerOf();
    const make = (): Request => new Request("http://x/", { method: "POST", body: text() });
    const locked = make();
    locked.body?.getReader();
    const used = make();
    await used.text();
    for (const one of [locked, used]) expect((await webhooks.fetch(one)).status).toBe(500);
    expect(await recorded()).toBe(0);
  });

  it("calls the platform's own context by its own name", async () => {
    const { webhooks } = handlerOf();
    class ExecutionContext {
      readonly #waiting: Promise<unknown>[] = [];
      waitUntil(promise: Promise<unknown>): void {
        this.#waiting.push(promise);
      }
      get count(): number {
        return this.#waiting.length;
      }
    }
    const context = new ExecutionContext();
    const sent = new Request("http://x/", { method: "POST", body: text() });
    expect((await webhooks.fetch(sent, context)).status).toBe(200);
    expect(context.count).toBe(1);
  });

  it("takes null for no context, as some routers have it", async () => {
    const { webhooks } = handlerOf();
    const sent = new Request("http://x/", { method: "POST", body: text() });
    expect((await webhooks.fetch(sent, null as never)).status).toBe(200);
  });
});
