import { expect, it } from "vitest";
import type { ReceiveContext } from "../../src/webhooks/request-context.ts";
import { handlerOf, notificationOf } from "../webhooks/support.ts";

/** Makes a handler that only receives. `receive` takes any value, and `recorded` counts the events. */
function receiverOf() {
  const { webhooks, store, logger } = handlerOf({ autoStart: false, replyWithin: 1_000 });
  const receive = async (request: unknown, context?: unknown) =>
    (await webhooks.receive(request as never, context as ReceiveContext)).status;
  const recorded = async () => (await store.list({ limit: 10 })).length;
  return { webhooks, logger, receive, recorded };
}

const request = { method: "POST", url: "/", headers: {} };
const text = (more: Record<string, unknown> = {}): string => JSON.stringify(notificationOf(more));
const fail = (): never => {
  throw new Error("hostile");
};
const never = () => new Promise<never>(() => {});
const hostile = new Proxy({}, { get: fail, has: fail, ownKeys: fail });
const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();

it.each<[string, unknown]>([
  ["null", null],
  ["nothing", undefined],
  ["a number", 5],
  ["a Proxy that throws", hostile],
  ["a Proxy that was revoked", revoked],
  ["a method that is none", { ...request, method: 5, body: text() }],
  ["a getter that throws", Object.defineProperty({ ...request }, "body", { get: fail })],
])("a request that is none is answered 500, and receive never rejects: %s", async (_, broken) => {
  const { receive, recorded, logger } = receiverOf();
  expect([await receive(broken), await recorded()]).toEqual([500, 0]);
  expect(logger.lines).toEqual([expect.stringContaining("unexpected error")]);
});

/** Makes an object of 20,000 levels, around a value that has no JSON. */
function deepBigint(): object {
  let value: unknown = 5n;
  for (let level = 0; level < 20_000; level++) value = { inner: value };
  return { ...notificationOf(), value };
}

const source = (next: () => unknown, more: object = {}) => ({
  [Symbol.asyncIterator]: () => ({ next, ...more }),
});
const always = (value: unknown) => source(async () => ({ value }));
const webStream = (pull: (controller: ReadableStreamDefaultController) => unknown) =>
  new ReadableStream({ pull: (controller) => void pull(controller) });
async function* breakingOff() {
  yield text();
  fail();
}

it.each<[number, string, unknown]>([
  [400, "a number", 5],
  [400, "a symbol", Symbol("x")],
  [400, "a Map", new Map([["eventId", "x"]])],
  [400, "toJSON that throws", { ...notificationOf(), toJSON: fail }],
  [400, "toJSON that gives nothing", { ...notificationOf(), toJSON: () => undefined }],
  [400, "a getter that throws", Object.defineProperty({}, "eventId", { get: fail, enumerable: true })],
  [400, "a bigint far within", deepBigint()],
  [400, "a toStringTag that lies", { [Symbol.toStringTag]: "ArrayBuffer", length: 10 }],
  [400, "text that is JSON only if its surrogate is escaped", text({ note: "@" }).replace("@", "\\\ud800")],
  [413, "an array that is huge", new Array(1_000_000)],
  [400, "a source whose iterator is none", { [Symbol.asyncIterator]: () => null }],
  [400, "a source that throws", source(fail)],
  [400, "a source that gives no results", source(() => undefined)],
  [400, "a source of what is no bytes", always({ length: 5 })],
  [400, "a source of Proxies of bytes", always(new Proxy(new Uint8Array(5), {}))],
  [400, "a source that fails when the notification is whole", breakingOff()],
  [408, "a source that is silent, and whose return hangs", source(never, { return: never })],
  [408, "a source that is silent, and whose return throws", source(never, { return: fail })],
  [408, "a source of nothing for ever", always(new Uint8Array(0))],
  [408, "a source of empty text for ever", always("")],
  [413, "a source that never ends", always(new Uint8Array(9))],
  [400, "a stream whose reader cannot be had", { getReader: fail }],
  [400, "a stream whose reader is none", { getReader: () => null }],
  [
    400,
    "a stream whose reader cannot be released",
    { getReader: () => ({ read: async () => ({ done: true }) }) },
  ],
  [408, "a stream whose silent reader cannot be released", { getReader: () => ({ read: never }) }],
  [400, "a stream that takes no listeners", { on: fail, pause() {} }],
  [408, "a stream that cannot be paused", { on() {}, removeListener() {}, pause: fail }],
  [400, "a web stream that fails with nothing", webStream((controller) => controller.error(undefined))],
  [400, "a web stream of objects", webStream((controller) => controller.enqueue({ length: 5 }))],
  [408, "a web stream of nothing", webStream((controller) => controller.enqueue(new Uint8Array(0)))],
  [413, "a web stream of huge chunks", webStream((controller) => controller.enqueue(new Uint8Array(5e7)))],
])("answers %i in time, and records nothing: the body is %s", async (status, _, body) => {
  const { receive, recorded } = receiverOf();
  let turns = 0;
  const counting = setInterval(() => void turns++, 1);
  expect([await receive({ ...request, body }), await recorded()]).toEqual([status, 0]);
  clearInterval(counting);
  // A source that is always ready must leave others their turn.
  if (status === 408) expect(turns).toBeGreaterThan(10);
});

it.each<[string, unknown, readonly number[]]>([
  ["null", null, [200]],
  ["a number", 5, [200, 500]],
  ["broken lists", [[1], null], [200, 500]],
  ["no prototype", Object.create(null), [200]],
  ["a length that is none", { "content-length": "-5" }, [200]],
  ["two lengths", { "content-length": ["1", "2"] }, [200]],
  ["a number as length", { "content-length": 1e9 }, [200, 413]],
  ["an object that will be no text", { "content-length": { toString: fail } }, [200, 500]],
  ["a Proxy that throws", hostile, [200, 500]],
])("headers that are none count as none, or are answered 500: %s", async (_, headers, statuses) => {
  const { receive, recorded } = receiverOf();
  let accepted = 0;
  for (const body of [text(), notificationOf(), new TextEncoder().encode(text())]) {
    const status = await receive({ ...request, headers, body });
    expect(statuses).toContain(status);
    if (status === 200) accepted++;
  }
  expect(await recorded()).toBe(accepted);
});

it("answers 200 for what is recorded, whatever the context is, and calls waitUntil as its method", async () => {
  const { webhooks, receive, recorded, logger } = receiverOf();
  const contexts = [null, 5, {}, { waitUntil: fail }, { waitUntil: null }];
  for (const context of contexts) expect(await receive({ ...request, body: text() }, context)).toBe(200);
  expect(await recorded()).toBe(contexts.length);
  expect(logger.lines).toEqual([expect.stringMatching(/could not be processed in waitUntil.*hostile/)]);
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
  expect([(await webhooks.fetch(sent, context)).status, context.count]).toEqual([200, 1]);
});
