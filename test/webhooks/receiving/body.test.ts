import { EventEmitter } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import { Refused } from "../../../src/webhooks/receiving/answers.ts";
import { readStream } from "../../../src/webhooks/receiving/body-stream.ts";
import {
  bookingNotification,
  bytesOf,
  countingStream,
  harness,
  problemOf,
  resultAfter,
  statusOf,
  useFakeTime,
} from "./receiver.ts";

const text = JSON.stringify(bookingNotification);
const bytes = bytesOf(text);
const never = new Promise<never>(() => {});

async function* chunksOf(...chunks: (Uint8Array | string)[]): AsyncGenerator<Uint8Array | string> {
  yield* chunks;
}

function webStream(...chunks: unknown[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk as Uint8Array);
      controller.close();
    },
  });
}

const shapes: Record<string, () => object | string> = {
  "a string": () => text,
  bytes: () => bytes,
  "a Buffer": () => Buffer.from(text),
  "an ArrayBuffer": () => bytes.slice().buffer,
  "a view in the middle of a buffer": () => {
    const wide = new Uint8Array(bytes.length + 20);
    wide.set(bytes, 7);
    return new DataView(wide.buffer, 7, bytes.length);
  },
  "bytes of another realm": () => runInNewContext(`Uint8Array.from(${JSON.stringify([...bytes])})`) as object,
  "an ArrayBuffer of another realm": () =>
    runInNewContext(`Uint8Array.from(${JSON.stringify([...bytes])}).buffer`) as object,
  "a ReadableStream": () => webStream(bytes.slice(0, 9), bytes.slice(9)),
  "a ReadableStream of text": () => webStream(text.slice(0, 9), text.slice(9)),
  "an async iterable": () => chunksOf(bytes.slice(0, 9), text.slice(9)),
  "a Node stream": () => Readable.from([Buffer.from(text.slice(0, 9)), Buffer.from(text.slice(9))]),
  "a Node stream with an encoding": () => Readable.from([Buffer.from(text)], { encoding: "utf8" } as object),
  "an object that a parser made": () => structuredClone(bookingNotification),
  "an object without a prototype": () => Object.assign(Object.create(null), bookingNotification) as object,
};

it.each(Object.entries(shapes))(
  "a body that is %s is read to the last byte that maxBodyBytes allows",
  async (_, make) => {
    const { post, added } = harness({ maxBodyBytes: bytes.length });
    expect((await post({ body: make() })).result.status).toBe(200);
    expect(JSON.parse(added[0]?.notification ?? "")).toEqual(bookingNotification);
    const small = harness({ maxBodyBytes: bytes.length - 1 });
    expect((await small.post({ body: make() })).result.status).toBe(413);
    expect(small.added).toEqual([]);
    expect(small.seen).toEqual([{ kind: "refused", status: 413, reason: "too-large", topic: null }]);
  },
);

describe("text", () => {
  it.each([
    ["bytes", bytesOf(`\uFEFF${text}`)],
    ["a string", `\uFEFF${text}`],
  ])("loses its byte order mark: %s", async (_, body) => {
    const { post, added } = harness();
    expect((await post({ body })).result.status).toBe(200);
    expect(added[0]?.notification).toBe(text);
  });

  it("counts bytes, not characters", async () => {
    const body = JSON.stringify({ ...bookingNotification, note: "é".repeat(300) });
    const { length } = bytesOf(body);
    expect(await statusOf({ body }, { maxBodyBytes: length })).toBe(200);
    expect(await statusOf({ body }, { maxBodyBytes: length - 1 })).toBe(413);
  });

  it("joins a character that chunks have cut", async () => {
    const body = bytesOf(JSON.stringify({ ...bookingNotification, note: "🏡" }));
    const cut = body.length - 4;
    const { post, added } = harness();
    await post({ body: chunksOf(body.slice(0, cut), body.slice(cut)) });
    expect(JSON.parse(added[0]?.notification ?? "").note).toBe("🏡");
  });
});

describe("an object that a parser made", () => {
  const spaced = { ...bookingNotification, note: "x".repeat(500) };

  it.each<[number, object, Record<string, string>]>([
    [200, spaced, { "Content-Length": "400" }],
    [413, bookingNotification, { "content-length": "401" }],
    [413, spaced, {}],
    [413, spaced, { "content-length": "10", "content-encoding": "gzip" }],
    [413, spaced, { "content-length": "ten" }],
  ])("is measured by its length header, or by its text: %i", async (status, body, headers) => {
    expect(await statusOf({ body, headers }, { maxBodyBytes: 400 })).toBe(status);
  });

  it("may be nested as deep as JSON.parse allows", async () => {
    const deep = `${'{"a":['.repeat(9_000)}1,"x",null,true,{}${"]}".repeat(9_000)}`;
    const body = `{${text.slice(1, -1)},"deep":${deep},"after":[1,{"b":2}]}`;
    const { post, added } = harness({ maxBodyBytes: 100_000 });
    expect((await post({ body: JSON.parse(body) })).result.status).toBe(200);
    expect(added[0]?.notification).toBe(body);
    const asText = harness({ maxBodyBytes: 100_000 });
    expect((await asText.post({ body })).result.status).toBe(200);
    expect(asText.added[0]?.notification).toBe(body);
  });

  it("is refused if it has no JSON", async () => {
    const circle: Record<string, unknown> = { ...bookingNotification };
    circle.self = circle;
    const long: Record<string, unknown> = { ...bookingNotification };
    let end = long;
    for (let depth = 0; depth < 50_000; depth++) {
      const next = {};
      end.next = next;
      end = next;
    }
    end.next = long;
    for (const body of [circle, long, { ...bookingNotification, big: 1n }, () => {}]) {
      const { post, added } = harness();
      expect((await post({ body })).result.status).toBe(400);
      expect(added).toEqual([]);
    }
  });

  it("keeps lone surrogates and NUL, escaped", async () => {
    const odd = { ...bookingNotification, note: "\ud800 \u0000", "k\udfff": 1 };
    for (const body of [
      odd,
      `{${text.slice(1, -1)},"note":"\ud800 \\u0000","k\udfff":1}`,
      JSON.stringify(odd),
    ]) {
      const { post, added } = harness();
      expect((await post({ body })).result.status).toBe(200);
      expect(added[0]?.notification?.isWellFormed()).toBe(true);
      expect(JSON.parse(added[0]?.notification ?? "")).toEqual(odd);
    }
  });
});

describe("a body larger than maxBodyBytes", () => {
  const chunk = new Uint8Array(400).fill(32);
  function* endless(): Generator<Uint8Array> {
    for (;;) yield chunk;
  }

  it("is not read on: ReadableStream and async iterable", async () => {
    const { stream, state } = countingStream(endless());
    expect(await statusOf({ body: stream })).toBe(413);
    expect([state.pulled, stream.locked]).toEqual([3, false]);
    const iterated = countingStream(endless());
    expect(await statusOf({ body: iterated.stream.values() })).toBe(413);
    expect(iterated.state.pulled).toBe(3);
  });

  it("is not read on: Node stream", async () => {
    let pulled = 0;
    const body = new Readable({
      highWaterMark: 1,
      read() {
        pulled++;
        this.push(chunk);
      },
    });
    expect((await harness().post({ body })).result.status).toBe(413);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(pulled).toBeLessThan(7);
    body.destroy(new Error("nobody listens any more"));
    await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it.each([
    ["a record", { "Content-Length": "1001" }],
    ["a record of lists", { "content-length": ["1001"] }],
    ["Headers", new Headers({ "content-length": "1001" })],
    ["pairs", [["Content-Length", "1001"]] as [string, string][]],
    ["a Map", new Map([["Content-Length", "1001"]])],
  ])("is not read at all where the length header says so: %s", async (_, headers) => {
    const { stream, state } = countingStream(endless());
    expect((await harness().post({ body: stream, headers })).result.status).toBe(413);
    expect(state.pulled).toBe(0);
  });

  describe("after the answer", () => {
    useFakeTime();
    it("is cancelled", async () => {
      const { stream, state } = countingStream(endless());
      let returned = false;
      const iterable = {
        [Symbol.asyncIterator]: () => ({
          next: async () => ({ done: false, value: chunk }),
          return: async () => {
            returned = true;
            throw new Error("whatever it says");
          },
        }),
      };
      await harness().post({ body: stream });
      await harness().post({ body: iterable as AsyncIterable<Uint8Array> });
      await vi.advanceTimersByTimeAsync(500);
      expect([state.cancelled, returned]).toEqual([false, false]);
      await vi.advanceTimersByTimeAsync(501);
      expect([state.cancelled, returned]).toEqual([true, true]);
    });
  });
});

describe("a body that stalls", () => {
  useFakeTime();

  const stalling: Record<string, () => object> = {
    ReadableStream: () =>
      new ReadableStream({ start: (controller) => controller.enqueue(bytes.slice(0, 9)) }),
    "async iterable": async function* () {
      yield bytes.slice(0, 9);
      await never;
    },
    "Node stream": () => {
      const stream = new PassThrough();
      stream.write("{");
      return stream;
    },
    "chunks that come too slowly": () => dripping(40),
  };
  it.each(Object.entries(stalling))("is answered 408 in time: %s", async (_, make) => {
    const { post, added, seen } = harness({ replyWithin: 1_000 });
    expect((await resultAfter(1_000, post({ body: make() }))).status).toBe(408);
    expect(added).toEqual([]);
    expect(seen).toEqual([{ kind: "refused", status: 408, reason: "body-timeout", topic: null }]);
  });

  /** Sends a chunk every 200 ms. */
  async function* dripping(pieces: number): AsyncGenerator<Uint8Array> {
    const size = Math.ceil(bytes.length / pieces);
    for (let offset = 0; offset < bytes.length; offset += size) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      yield bytes.slice(offset, offset + size);
    }
  }

  it("may be slow if it goes on", async () => {
    expect((await resultAfter(2_000, harness().post({ body: dripping(10) }))).status).toBe(200);
  });

  it("does not delay others", async () => {
    const { post } = harness({ replyWithin: 300 });
    const stalled = post({ body: new ReadableStream() });
    await vi.advanceTimersByTimeAsync(100);
    expect((await post()).result.status).toBe(200);
    const later = post({ body: new ReadableStream() });
    expect((await resultAfter(200, stalled)).status).toBe(408);
    expect((await resultAfter(95, later)).status).toBe(408);
  });
});

describe("a body that cannot be read", () => {
  /** Makes a Node stream on which `act` is called a little later. */
  const later = (act: (stream: PassThrough) => unknown) => {
    const stream = new PassThrough();
    setTimeout(() => act(stream), 5);
    return stream;
  };
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  const broken: Record<string, () => object | Promise<object>> = {
    "a ReadableStream that errors": () =>
      new ReadableStream({ pull: (controller) => controller.error(new Error("reset")) }),
    "an iterable that throws": () =>
      (async function* () {
        yield bytes.slice(0, 9);
        throw new Error("reset");
      })(),
    "an iterable that cannot be opened": () => ({
      [Symbol.asyncIterator]() {
        throw new Error("reset");
      },
    }),
    "a Node stream that is destroyed": () => later((stream) => stream.destroy()),
    "a Node stream that errors": () => later((stream) => stream.destroy(new Error("reset"))),
    "a Node stream that was destroyed before": async () => {
      const stream = later((each) => each.destroy());
      await new Promise((resolve) => stream.once("close", resolve));
      return stream;
    },
    "an old kind of stream that closes": () => {
      const stream = Object.assign(new EventEmitter(), { pause() {} });
      setTimeout(() => stream.emit("close"), 5);
      return stream;
    },
    "a stream of something else": () => Readable.from([{ not: "bytes" }]),
  };

  it.each(Object.entries(broken))("because it ends early is answered 400: %s", async (_, make) => {
    const { post, added, seen } = harness({ replyWithin: 500 });
    const { result } = await post({ body: await make() });
    expect(result.status).toBe(400);
    expect(result.body).not.toContain("reset");
    expect(added).toEqual([]);
    expect(seen).toMatchObject([{ kind: "refused", status: 400, reason: "aborted" }]);
  });

  const used: Record<string, () => Promise<object>> = {
    "a Request's": async () => {
      const request = new Request("http://localhost/", { method: "POST", body: text });
      await request.text();
      return request.body as object;
    },
    "a locked ReadableStream": async () => {
      const stream = webStream(bytes);
      stream.getReader();
      return stream;
    },
    "a Node stream": async () => {
      const stream = Readable.from([Buffer.from(text)]);
      for await (const _ of stream);
      return stream;
    },
    "a Node stream that is being read": async () => {
      const stream = later(() => {});
      stream.write("{");
      stream.on("data", () => {});
      await sleep(5);
      return stream;
    },
  };

  it.each(Object.entries(used))("because it was read before is answered 500: %s", async (_, make) => {
    const { post, added, seen, log } = harness({ replyWithin: 500 });
    const { result } = await post({ body: await make() });
    expect(result.status).toBe(500);
    expect(added).toEqual([]);
    expect(seen).toEqual([{ kind: "refused", status: 500, reason: "already-read", topic: null }]);
    expect(log).toMatchObject([
      { level: "error", message: expect.stringContaining("before that middleware") },
    ]);
  });

  it("is empty if it was read and had no bytes", async () => {
    const stream = Readable.from([]);
    stream.resume();
    await new Promise((resolve) => stream.once("close", resolve));
    const { result } = await harness({ replyWithin: 500 }).post({ body: stream });
    expect(problemOf(result.body).errors).toEqual([{ path: [], message: "is empty" }]);
  });
});

describe("readStream", () => {
  it("settles once", async () => {
    for (const [body, read] of [
      ["{}", expect.any(Uint8Array)],
      ["{".repeat(11), expect.objectContaining({ reason: "too-large" })],
    ]) {
      const settled = vi.fn();
      const stream = Readable.from([body]);
      const stop = readStream(stream, 10, settled);
      setTimeout(() => stream.destroy(new Error("later")), 10);
      await new Promise((resolve) => stream.once("close", resolve));
      stop(new Refused("aborted"));
      expect(settled.mock.calls).toEqual([[read]]);
    }
  });

  it("releases a stream that has ended before", () => {
    const settled = vi.fn();
    let listeners = 0;
    let paused = false;
    const eager = {
      on(event: string, listener: (chunk: unknown) => void) {
        listeners++;
        if (event === "data") listener("{".repeat(11));
      },
      removeListener: () => listeners--,
      pause: () => {
        paused = true;
      },
    };
    readStream(eager, 10, settled);
    expect(settled.mock.calls).toMatchObject([[{ reason: "too-large" }]]);
    expect([listeners, paused]).toEqual([3, true]);
  });
});
